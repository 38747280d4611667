// Workspaces of cuBLAS: memory that PyTorch allocates in whichever operator multiplies first, so
// that the operator does not say what it is.
#pragma once

#include <stddef.h>

#pragma GCC visibility push(default)
namespace tidemark::device {
/// A handle of cuBLAS got this workspace for its products on a stream; PyTorch gives it again
/// whenever it sets the stream. Null is none.
void set_workspace(const void* handle, const void* stream, const void* workspace);
/// The handle is destroyed.
void forget_workspaces(const void* handle);
/// A product of cuBLASLt was given this workspace.
void use_workspace(const void* workspace);
}  // namespace tidemark::device

extern "C" {
/// Addresses of the handles' workspaces on each of their streams, and of all that cuBLASLt was ever
/// given where `of_lt` is not 0 (PyTorch keeps those from 2.8 on; before, it allocates one for each
/// product): their number, without repetition; writes up to `size` of them.
size_t tidemark_device_workspaces(const void** addresses, size_t size, int of_lt);
}
#pragma GCC visibility pop
