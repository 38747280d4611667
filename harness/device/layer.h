// Observer of the operator that a thread is in, and of the tensors that operators return: PyTorch's
// own record function, on any device. It only observes: no measurement depends on it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace tidemark::layer {

/// Called with every CUDA tensor that an operator returns, on the operator's thread.
using Returned = void (*)(const at::Tensor& tensor);

/// Begins or ends following, in all threads. One follower in a process.
void follow(bool on, Returned returned = nullptr);

/// "aten::mm (MmBackward0)": the innermost operator that is more than an allocation, and the
/// backward node around it; empty outside operators, and where no observer is attached.
std::string current();

}  // namespace tidemark::layer
