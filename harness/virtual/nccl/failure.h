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

/// An error of a call of this thread, or of one that had returned before.
enum class Moment { in_call, afterwards };
/// Keeps `text` as the last error of the process, and of this thread if it happened in its call.
void remember_error(const std::string& text, Moment moment);
/// The last error of this thread's calls or of calls that had returned; where there is none, that
/// of any thread; "" without one.
std::string last_error();

/// Remembers the error of a call, and says it where NCCL_DEBUG asks for warnings (debug.h).
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
