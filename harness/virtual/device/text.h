// Texts that are read word by word or line by line, files of the kernel and of the system, and the
// entries of a folder. Where memory ends, or a command has spent what it may
// (harness/record/budget.h), these throw. A stream of the standard library would keep that to
// itself, and answer as if the text ended there, or as if there were no such file (ci/structure).
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

namespace tidemark {

class TextIn : public std::istringstream {
 public:
  explicit TextIn(const std::string& text) : std::istringstream(text) {
    exceptions(std::ios::badbit);
  }
};

class TextOut : public std::ostringstream {
 public:
  TextOut() { exceptions(std::ios::badbit); }
};

/// None where the folder cannot be read.
inline std::filesystem::directory_iterator entries_of(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  return entries;
}

/// The bytes of a file of any size, as those of /proc, which say 0; none where it cannot be read or
/// is no regular file.
inline std::optional<std::string> text_of_file(const char* path) {
  const int file = ::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOMEM) throw std::bad_alloc();
    return std::nullopt;
  }
  struct Closes {
    ~Closes() { ::close(file); }
    int file;
  } const closes{file};
  struct stat facts {};
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  constexpr std::size_t kPart = 1 << 16;
  std::string text;
  for (std::size_t at = 0;;) {
    if (at == text.size()) text.resize(at + kPart);
    const ssize_t some = ::read(file, text.data() + at, text.size() - at);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0 && errno == ENOMEM) throw std::bad_alloc();
    if (some < 0) return std::nullopt;
    at += static_cast<std::size_t>(some);
    if (some == 0) {
      text.resize(at);
      return text;
    }
  }
}

}  // namespace tidemark
