// The boundary of a command: the one place where what it throws becomes a line and an exit code.
#pragma once

#include <exception>
#include <string>

namespace tidemark {

struct Told {
  std::string line;
  int code = 0;        // exit code
  bool alike = false;  // every rank of a job would say it
};

/// What an exception says to a user. `otherwise` is the exit code of a std::runtime_error, whose
/// text is a line for users; the text of any other is none, so that it is a fault of tidemark.
Told told(const std::exception_ptr& thrown, int otherwise);

/// From here on an exception that nothing catches is a line and an exit code too.
void tell_at_terminate();

/// Opens /dev/null at the descriptors 0 to 2 that are closed, as a daemon may start a program: the
/// next file would become its output. Beyond the limit of a file's size (ulimit -f) writing fails
/// from here on, where the kernel would end the process.
void settle_process();

}  // namespace tidemark
