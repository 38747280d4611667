// CUDA's error rules: the last error of a thread, and the sticky ones that end a context. Driver
// and runtime number their errors alike, so cudaError_t serves both.
#pragma once

#include <driver_types.h>

#include <utility>

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

/// Every entry point of the runtime runs its body, or the function that it translates, in this.
template <class Body, class... Arguments>
cudaError_t call(Body&& body, Arguments&&... arguments) {
  if (cudaError_t sticky = sticky_error(); sticky != cudaSuccess) return sticky;
  const cudaError_t error = body(std::forward<Arguments>(arguments)...);
  return error == cudaSuccess ? error : note_error(error);
}

/// Writes an answer to where the caller wants it; cudaErrorInvalidValue where that is null.
template <class T, class Value>
cudaError_t give(T* to, const Value& value) {
  if (!to) return cudaErrorInvalidValue;
  *to = static_cast<T>(value);
  return cudaSuccess;
}

}  // namespace tidemark::device
#pragma GCC visibility pop
