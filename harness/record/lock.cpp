#include "harness/record/lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tidemark {
namespace {

bool lock(int file, int how) {
  while (flock(file, how) != 0)
    if (errno != EINTR) return false;
  return true;
}

}  // namespace

Held& Held::operator=(Held&& other) noexcept {
  std::swap(file_, other.file_);  // the other closes what this held
  return *this;
}

Held::~Held() {
  if (file_ >= 0) close(file_);
}

Held lock_file(const std::filesystem::path& path, int how) {
  const int file = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  Held guard(file);
  return file >= 0 && lock(file, how) ? std::move(guard) : Held();
}

bool is_locked(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const Held guard(file);
  return file >= 0 && !lock(file, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

}  // namespace tidemark
