// Programs of the kernels of symmetric memory: parts between which a kernel waits for other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tidemark::device {

/// A kernel with its arguments.
struct SymmetricProgram {
  /// The ranks and their pads of signals, by rank.
  struct Group {
    std::vector<std::uintptr_t> pads;
    std::size_t rank = 0, channel = 0;
    std::uint64_t timeout_ms = 0;  // 0: none

    std::size_t size() const { return pads.size(); }
    /// The word by which `from` signals `to`.
    std::uintptr_t word(std::size_t from, std::size_t to) const {
      return pads[to] + 4 * (size() * channel + from);
    }
  };
  /// Signals that are put and taken, of ranks, and what the kernel does when all are.
  struct Part {
    std::vector<std::size_t> put_to, take_from;
    std::function<void()> then;
  };

  Group group;
  std::vector<Part> parts;
  std::uint64_t bytes = 0;  // that move between this rank and the others
};

/// That of the kernel of this name, readable and with parameters. Nothing if it is another kernel,
/// or if this mode has no numbers for what the arguments point to.
std::optional<SymmetricProgram> symmetric_program(const std::string& name, void** arguments);

}  // namespace tidemark::device
