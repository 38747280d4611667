// PyTorch's C++ interface where its releases differ: the operator layer compiles against the
// headers of torch 2.4 to 2.15.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/cuda/CUDAFunctions.h>

namespace tidemark::operators {
struct KernelsOf;
}

// Before 2.10 a handle does not give out its kernels, but is a friend of every std::hash.
template <>
struct std::hash<tidemark::operators::KernelsOf> {
  template <typename Handle>
  static c10::KernelFunction at(const Handle& op, c10::DispatchKey key) {
    return op.operatorDef_->op.lookup(c10::DispatchKeySet(key));
  }
};

namespace tidemark::operators {

/// The kernel that the dispatcher calls for this key.
template <typename Handle>
auto kernel_of(const Handle& op, c10::DispatchKey key) {
  if constexpr (requires { op.getComputedKernelForDispatchKey(key); }) {
    return op.getComputedKernelForDispatchKey(key);
  } else {
    return std::hash<KernelsOf>::at(op, key);
  }
}

/// Starts CUDA, as the first CUDA tensor does.
template <typename Context>
void start_cuda(Context& context) {
  if constexpr (requires { context.lazyInitDevice(c10::kCUDA); }) {
    context.lazyInitDevice(c10::kCUDA);
  } else {
    context.lazyInitCUDA();
  }
}

using Kernel = c10::KernelFunction;
/// SafeKernelFunction, or before 2.10 KernelFunction.
using Original =
    decltype(kernel_of(std::declval<const c10::OperatorHandle&>(), c10::DispatchKey()));

}  // namespace tidemark::operators
