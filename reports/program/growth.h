// Memory that grows from step to step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/program/picture.h"

namespace tidemark {

/// What every step of a program leaves behind on one device, in bytes as requested.
struct StepGrowth {
  std::string where;  // the picture's
  std::size_t device = 0;
  /// The word that is counted: "step" where optimizers end steps; without one "backward" or
  /// "forward", since each begins a step then.
  std::string unit;
  std::int64_t since = 0, last = 0;  // the first and the last of them that are compared, from 1
  std::int64_t least = 0, most = 0;  // bytes that one leaves behind
  std::int64_t filled = 0;           // bytes of the blocks, most of one
  std::int64_t reserved = 0;         // at its highest in the last
  std::vector<Part> parts;           // of the last, the largest first
  /// What holds most of each part in the program, where it is known.
  std::vector<Holder> holders;
};

/// A place grows if each step since some step has left blocks of it behind that are alive when the
/// last step begins. The last two steps do not count, since a step may keep something for the next.
/// None without three steps that grow. `picture`: with all its moments.
std::optional<StepGrowth> growth_of(const MemoryPicture& picture);

/// "rank 0 grows by 224.2 MiB a step since step 2: 192 MiB in 6 blocks, activations, evaluate
/// leak.py:8; ...; held by `total_loss` in main (leak.py:23); at this rate 4 GiB are full in step
/// 17", since reserved grows by as much; no rate where all is held by cycles, which the collector
/// frees.
/// `capacity`: of the GPU; 0: not known, or it has been full.
std::string growth_text(const StepGrowth& growth, Bytes capacity);

}  // namespace tidemark
