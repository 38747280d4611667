#include "harness/virtual/device/failure.h"

#include <atomic>
#include <string>
#include <string_view>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/refusal.h"

namespace tidemark::device {
namespace {
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> broken{cudaSuccess};

/// Advice for a program without the library's functions; "" if there is none.
std::string_view advice_about(std::string_view library) {
  if (library.starts_with("libcudnn"))
    return "torch.backends.cudnn.enabled = False, in the program, takes PyTorch's own kernels in "
           "place of cuDNN's; the memory is then that of those kernels";
  return "";
}

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

void not_supported(const char* library, const char* function) {
  say_once(std::string(function) + " (" + library +
           ") is not modelled by the virtual device; it answers \"not supported\"");
  const std::string_view advice = advice_about(library);
  if (!advice.empty()) say_once(std::string(advice));
}

}  // namespace tidemark::device
