// Errors of the library: exceptions inside it, which every nccl* function turns into a code and one
// line of text.
#pragma once

#include <fmt/format.h>
#include <nccl.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tidemark::nccl {

class Failure : public std::runtime_error {
 public:
  Failure(ncclResult_t code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

template <typename... Args>
[[noreturn]] void fail(ncclResult_t code, fmt::format_string<Args...> text, Args&&... args) {
  throw Failure(code, fmt::format(text, std::forward<Args>(args)...));
}

/// Keeps `text` as the last error of this thread and of the process (what ncclGetLastError(NULL)
/// returns).
void remember_error(const std::string& text);
/// The last error of this thread, or, where it has had none, of any thread; "" without one.
std::string last_error();

/// Remembers the error, and with NCCL_DEBUG set (as with the real library) prints it to stderr.
ncclResult_t report_failure(const char* function, ncclResult_t code, const char* text);

/// Runs the body of one nccl* function.
template <typename Body>
ncclResult_t at_border(const char* function, Body&& body) {
  try {
    body();
    return ncclSuccess;
  } catch (const Failure& failure) {
    return report_failure(function, failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return report_failure(function, ncclSystemError, "out of host memory");
  } catch (const std::exception& error) {
    return report_failure(function, ncclInternalError, error.what());
  }
}

}  // namespace tidemark::nccl
