// Creation of files: the one way in which tidemark's C++ does it (ci/structure).
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tidemark {

/// Opens a new file. A file, link, pipe or socket that has the name already goes first, so that
/// nothing is written through a link, or into a file that another process has open. `at` is the
/// open folder that `path` is relative to. -1, with errno, where it cannot be made, or where the
/// name is that of a folder or a device.
inline int create_file_at(int at, const char* path, int flags, mode_t mode) {
  for (int tries = 0;; ++tries) {
    const int file =
        openat(at, path, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, mode);
    if (file >= 0 || errno != EEXIST || tries > 9) return file;
    struct stat old {};
    if (fstatat(at, path, &old, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone since
    if (S_ISDIR(old.st_mode) || S_ISCHR(old.st_mode) || S_ISBLK(old.st_mode)) {
      errno = S_ISDIR(old.st_mode) ? EISDIR : EEXIST;
      return -1;
    }
    if (unlinkat(at, path, 0) != 0 && errno != ENOENT) return -1;
  }
}
inline int create_file(const char* path, int flags = O_WRONLY, mode_t mode = 0666) {
  return create_file_at(AT_FDCWD, path, flags, mode);
}

/// Opens a new file, where nothing has the name: the first process to do so has it. -1, with errno.
inline int create_first(const char* path, int flags = O_WRONLY, mode_t mode = 0666) {
  return open(path, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, mode);
}

/// Makes an empty file, which is a mark.
inline void make_mark(const char* path, mode_t mode = 0666) {
  if (const int file = create_file(path, O_WRONLY, mode); file >= 0) close(file);
}

}  // namespace tidemark
