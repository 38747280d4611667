// Workspaces of cuBLAS: memory that PyTorch allocates in whichever operator multiplies first, so
// that the operator does not say what it is.
#pragma once

#include <stddef.h>

#pragma GCC visibility push(default)
namespace tidemark::device {
/// A handle of cuBLAS has another workspace than before; null is none.
void change_workspace(const void* before, const void* now);
/// A product of cuBLASLt was given this workspace.
void use_workspace(const void* workspace);
}  // namespace tidemark::device

extern "C" {
/// Addresses of the handles' workspaces now, and of all that cuBLASLt was ever given where `of_lt`
/// is not 0 (PyTorch keeps those from 2.8 on; before, it allocates one for each product): their
/// number, without repetition; writes up to `size` of them.
size_t tidemark_device_workspaces(const void** addresses, size_t size, int of_lt);
}
#pragma GCC visibility pop
