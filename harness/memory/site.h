// The place in the program that an allocation comes from, by its recorded frames.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Adds a frame, and notes the folder of PyTorch's package where it shows one; its place.
std::uint32_t add_frame(Snapshot& snapshot, StackFrame frame);

/// The file of a frame in PyTorch's Python package, as in "optim/adam.py"; empty for another. An
/// installed package is told by its folder's name. Else, where no frame shows the folder of
/// PyTorch's, every folder named torch counts.
std::string file_of_torch(const Snapshot& snapshot, const StackFrame& frame);

/// True for a frame of Python code, in a file or in a text ("<stdin>").
bool is_python(const StackFrame& frame);
/// True for a frame of the user's Python code, not PyTorch's, torch.compile's or Python's own.
bool is_users_python(const Snapshot& snapshot, const StackFrame& frame);
/// The innermost of them in a stack, outside __torch_function__ where there is one; nullptr where
/// there is none.
const StackFrame* users_frame(const Snapshot& snapshot, std::uint32_t stack);

/// True if `tidemark exec` or a scenario wrote it: then an allocation without a stack is one on a
/// thread without Python, and else nothing is known of it.
bool is_ours(const Snapshot& snapshot);

/// The kind of what Python code of a library allocates: optimizer state and temporaries
/// (torch.optim), sharding buffers (FSDP, DDP, DeepSpeed); none where the innermost frames are
/// those of a module or of the program. `frames` are places in Snapshot::frames.
std::optional<MemoryKind> kind_of_library(const Snapshot& snapshot,
                                          const std::vector<std::uint32_t>& frames);

/// True for what gathers a DTensor whole (full_tensor): its result, and what it is made of.
bool gathers_whole(const Snapshot& snapshot, const std::vector<std::uint32_t>& frames);

/// "step train.py:12" of the innermost Python frame that is the user's. In a backward that
/// tidemark exec has recorded, with autograd's node: "forward model.py:9 (MmBackward0)". Without
/// one the node of autograd ("MmBackward0"), then the innermost frame of any language that is not
/// PyTorch's own.
std::string site_of(const Snapshot& snapshot, std::uint32_t stack);

}  // namespace tidemark
