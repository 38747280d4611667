#include "harness/record/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "harness/record/budget.h"
#include "harness/record/lock.h"

namespace tidemark {
namespace {

/// A file, open for reading; a pipe without a writer does not hold it up.
Held open_regular(const std::filesystem::path& file, struct stat& facts, std::string& why) {
  Held held(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!held || fstat(held.file(), &facts) != 0)
    why = std::string("cannot be read (") + std::strerror(errno) + ")";
  else if (!S_ISREG(facts.st_mode))
    why = S_ISDIR(facts.st_mode) ? "is a folder, not a file" : "is a pipe or a device, not a file";
  return held;
}

/// Reads on to the end of the file, or to `most` bytes. False, with errno, where that fails.
bool read_on(int file, std::string& text, std::uint64_t most) {
  constexpr std::size_t kPart = 1 << 16;
  for (std::size_t at = 0;;) {
    if (at == text.size()) text.resize(at + kPart);  // it has grown, or is one of /proc
    if (text.size() > most) text.resize(most);
    const ssize_t some = ::read(file, text.data() + at, text.size() - at);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0 || (at += static_cast<std::size_t>(some)) == most) {
      text.resize(at);
      return some >= 0;
    }
  }
}

}  // namespace

std::string read_bytes(const std::filesystem::path& file, std::string_view give,
                       std::uint64_t most) {
  struct stat facts {};
  std::string why, text;
  const Held held = open_regular(file, facts, why);
  if (why.empty()) {
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    spend_on(file.string(), size, file.extension() == ".gz" || file.extension() == ".xz");
    if (size <= most) text.resize(size + 1);  // one more: the end is seen by the same call
    if (size > most || !read_on(held.file(), text, most + 1) || text.size() > most)
      why = size > most || text.size() > most
                ? fmt::format("has more than {} bytes, which is the most that is read", most)
                : std::string("cannot be read (") + std::strerror(errno) + ")";
  }
  if (!why.empty())
    throw std::runtime_error(
        fmt::format("{}: {}{}{}", file.string(), why, give.empty() ? "" : ": give ", give));
  return text;
}

std::string first_bytes(const std::filesystem::path& file, std::size_t most) {
  struct stat facts {};
  std::string why, text;
  const Held held = open_regular(file, facts, why);
  return why.empty() && read_on(held.file(), text, most) ? text : "";
}

}  // namespace tidemark
