// Uses of memory that the device sees and the operator that allocates does not tell: workspaces of
// cuBLAS, which PyTorch allocates in whichever operator multiplies first (from 2.15 on, and those
// of cuBLASLt before 2.8, one for each product), and memory that is filled from the host.
#pragma once

#pragma GCC visibility push(default)
namespace tidemark::device {
/// Their words, of MemoryKind (harness/record/memory_kind.h).
inline constexpr const char *kWorkspace = "cuBLAS workspaces", *kUploaded = "inputs";

/// cuBLAS is given this workspace, for the products of a handle or for one of cuBLASLt. Null is
/// none.
void give_workspace(const void* workspace);
/// A copy from the host begins at this memory of the device.
void note_upload(const void* memory);
}  // namespace tidemark::device

extern "C" {
/// From now on `listener` is called with each such use, on the thread that makes it; `kind` is
/// one of the words above. Null: no longer.
void tidemark_device_on_use(void (*listener)(const void* memory, const char* kind));
}
#pragma GCC visibility pop
