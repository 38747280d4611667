// CUDA's error rules: the last error of a thread, and the sticky ones that end a context. Driver
// and runtime number their errors alike, so cudaError_t serves both.
#pragma once

#include <driver_types.h>

#include <utility>

#include "harness/virtual/device/activity.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t take_last_error();  // and forgets it, unless it is sticky
cudaError_t peek_last_error();
/// Notes and returns `error`.
cudaError_t note_error(cudaError_t error);

/// CUDA's own words, or null for a code that it does not have.
const char* error_name(cudaError_t error);
const char* error_text(cudaError_t error);

/// An error that a kernel would have caused (cudaErrorIllegalAddress ...): from now on every call
/// returns it.
void break_context(cudaError_t error);
/// The sticky error, or cudaSuccess.
cudaError_t sticky_error();

/// Every entry point of the runtime runs its body, or the function that it translates, in this:
/// `return call(body, arguments...)`. It is a class so that its last argument can be the name of
/// the entry point, which a profiler is told.
template <class Body, class... Arguments>
class call {
 public:
  call(Body&& body, Arguments&&... arguments, const char* function = __builtin_FUNCTION()) {
    if (error_ = sticky_error(); error_ != cudaSuccess) return;
    const CallRecord record(Api::runtime, function);
    error_ = body(std::forward<Arguments>(arguments)...);
    if (error_ == cudaSuccess) error_ = sticky_error();  // of a kernel that the call has waited for
    if (error_ != cudaSuccess) note_error(error_);
  }
  operator cudaError_t() const { return error_; }

 private:
  cudaError_t error_;
};
template <class Body, class... Arguments>
call(Body&&, Arguments&&...) -> call<Body, Arguments...>;

/// Writes an answer to where the caller wants it; cudaErrorInvalidValue where that is null.
template <class T, class Value>
cudaError_t give(T* to, const Value& value) {
  if (!to) return cudaErrorInvalidValue;
  *to = static_cast<T>(value);
  return cudaSuccess;
}

}  // namespace tidemark::device
#pragma GCC visibility pop
