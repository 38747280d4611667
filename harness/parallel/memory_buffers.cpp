#include "harness/parallel/memory_buffers.h"

#include <ATen/ATen.h>

#include "harness/measure/recorder.h"

namespace tidemark {

at::Tensor MemoryBuffers::get(const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const auto numel = c10::multiply_integers(sizes);
  auto& buffer = buffers_[name];
  if (!buffer.defined() || buffer.numel() < numel) {
    const CategoryScope category("persistent buffers");
    buffer.reset();
    buffer = at::empty({numel}, at::TensorOptions().dtype(type).device(at::kCUDA));
  }
  TORCH_CHECK(buffer.scalar_type() == type, "the persistent buffer '", name, "' holds ",
              buffer.scalar_type(), ", not ", type, "; name another");
  // Detached: no view for autograd to follow, but the version counter stays shared.
  return buffer.narrow(0, 0, numel).view(sizes).detach();
}

}  // namespace tidemark
