// Workspaces of cuBLAS: memory that PyTorch allocates in whichever operator multiplies, so that the
// operator does not say what it is. PyTorch keeps them; from 2.15 on, and those of cuBLASLt before
// 2.8, it allocates one for each product.
#pragma once

#pragma GCC visibility push(default)
namespace tidemark::device {
/// cuBLAS is given this workspace, for the products of a handle or for one of cuBLASLt. Null is
/// none.
void give_workspace(const void* workspace);
}  // namespace tidemark::device

extern "C" {
/// From now on `listener` is called with each workspace when cuBLAS is given it, on the thread that
/// gives it. Null: no longer.
void tidemark_device_on_workspace(void (*listener)(const void* workspace));
}
#pragma GCC visibility pop
