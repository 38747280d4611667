// The part of a training that an allocation belongs to, as far as its stack alone says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

enum class StackPhase : std::uint8_t { none, forward, backward, optimizer };

struct StackFacts {
  StackPhase phase = StackPhase::none;
  bool again = false;   // a forward that a backward runs again
  bool builds = false;  // a module
  bool blas = false;    // a workspace of cuBLAS
  bool zeroes = false;  // an optimizer's zero_grad
  std::optional<MemoryKind> library;
  /// The lines that call modules, from the outermost: "train.py:30 > model.py:21". A stack has no
  /// names of modules. Empty outside modules.
  std::string module;
};

/// The innermost frame that tells a phase decides:
/// * backward: autograd's engine, the `backward` of an autograd.Function, or what checkpoint runs
///   again; then also if the frames within are those of a module;
/// * optimizer: torch.optim, or a function `step` in a file of an optimizer, unless the frames
///   within are those of a module (a closure);
/// * forward: a module's __call__, or code that torch.compile has written;
/// * backward: a stack without Python where other allocations have Python frames: the engine's own
///   threads.
class StackReader {
 public:
  explicit StackReader(const Snapshot& snapshot);
  const StackFacts& of(std::uint32_t stack);

 private:
  enum class Mark { none, module, compiled, engine, recomputation, optimizer };
  Mark mark_of(const StackFrame& frame, const std::string& torch, const std::string& within) const;
  bool has_python(std::uint32_t stack) const;
  StackFacts facts(std::uint32_t stack) const;

  const Snapshot& s_;
  std::vector<std::optional<StackFacts>> known_;  // by stack
  bool python_ = false;                           // an allocation has a Python frame
};

}  // namespace tidemark
