#include "harness/virtual/device/failure.h"

#include <atomic>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/refusal.h"

namespace tidemark::device {
namespace {
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> broken{cudaSuccess};

}  // namespace

cudaError_t sticky_error() {
  engine();  // a profile that cannot be read is an initialisation error
  return broken.load(std::memory_order_relaxed);
}

cudaError_t take_last_error() {
  if (cudaError_t sticky = sticky_error(); sticky != cudaSuccess) return sticky;
  take_refusal();  // it is in the last error
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t peek_last_error() {
  if (cudaError_t sticky = sticky_error(); sticky != cudaSuccess) return sticky;
  return last_error;
}

cudaError_t note_error(cudaError_t error) { return last_error = error; }

void break_context(cudaError_t error) { broken = error; }

}  // namespace tidemark::device
