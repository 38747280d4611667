// The bytes of device memory that are known in mode known: those that the host has written, that a
// copy has brought from known ones, or that the operator layer has computed. All others have no
// value. What a program reads of those is a policy of the operator layer, never leftover bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// True if this thread's copies, memsets, launches and collectives follow what is known: mode
/// known, and not suspended (the operator layer then says itself what an operator's results are).
bool follows_known();
/// More bytes than that in one piece are not kept. Integers may be `kWholeFactor` times as many.
std::uint64_t known_limit();
inline constexpr std::uint64_t kWholeFactor = 64;

void mark_known(const void* address, std::size_t bytes, bool known);
/// All of these bytes; true for none.
bool is_known(const void* address, std::size_t bytes);
/// Copies what is known of `from`, and what is known afterwards of `to` is that alone.
void copy_known(void* to, const void* from, std::size_t bytes);
/// Ranges of memory, from and to.
using Blocks = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;
/// A launched kernel computes nothing: the blocks that its arguments point into are to be unknown.
/// Says so of the first one. `parameters`: their bytes, where the code states them; `reads_only`:
/// those that are left out. Of arguments that cannot be looked at: all memory.
Blocks blocks_of(std::string_view kernel, void** arguments,
                 const std::optional<std::vector<std::size_t>>& parameters,
                 const std::vector<bool>& reads_only = {});
/// A kernel outside the operators of the layer is launched: notes that it may read the memory that
/// its arguments point to (memory_use.h); all memory, where they cannot be looked at.
void note_reads(void** arguments, const std::optional<std::vector<std::size_t>>& parameters);
/// They are unknown from now on.
void forget(const Blocks& blocks);
/// Nothing that this process shares with others is known any more: a kernel of the program's own
/// may write to others by addresses that it reads.
void distrust_shared();
/// Forgets all known bytes, for an operation with arguments that are not looked at.
void forget_all(std::string_view operation);

}  // namespace tidemark::device
#pragma GCC visibility pop
