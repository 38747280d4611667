// Uses of memory that the device sees and the operator that allocates does not tell: workspaces of
// cuBLAS, which PyTorch allocates in whichever operator multiplies first (from 2.15 on, and those
// of cuBLASLt before 2.8, one for each product), memory that is filled from the host, and memory
// that is read outside operators.
#pragma once

#pragma GCC visibility push(default)
namespace tidemark::device {
/// Their words, of MemoryKind (harness/record/memory_kind.h).
inline constexpr const char *kWorkspace = "cuBLAS workspaces", *kUploaded = "inputs";
/// No kind: the memory is read, or may be.
inline constexpr const char* kRead = "read";

/// cuBLAS is given this workspace, for the products of a handle or for one of cuBLASLt. Null is
/// none.
void give_workspace(const void* workspace);
/// A copy from the host begins at this memory of the device.
void note_upload(const void* memory);
/// A copy, or a kernel outside the operators of the layer, reads this memory or may do so. Null: it
/// may read all memory of the process.
void note_read(const void* memory);
/// True if a listener is told of uses.
bool uses_are_told();
}  // namespace tidemark::device

extern "C" {
/// From now on `listener` is called with each such use, on the thread that makes it; `kind` is
/// one of the words above. Null: no longer.
void tidemark_device_on_use(void (*listener)(const void* memory, const char* kind));
}
#pragma GCC visibility pop
