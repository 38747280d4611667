// Workspaces of cuBLAS: memory that PyTorch allocates in whichever operator multiplies first, so
// that the operator does not say what it is.
#pragma once

#include <stddef.h>

#pragma GCC visibility push(default)
namespace tidemark::device {
/// A handle of cuBLAS has another workspace than before; null is none.
void change_workspace(const void* before, const void* now);
}  // namespace tidemark::device

extern "C" {
/// Addresses of the handles' workspaces now: their number, without repetition; writes up to `size`
/// of them.
size_t tidemark_device_workspaces(const void** addresses, size_t size);
}
#pragma GCC visibility pop
