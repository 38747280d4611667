// Memory that grows from step to step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/picture.h"
#include "harness/record/record.h"

namespace tidemark {

/// Memory left behind on one device by every step of a program, or every n-th, as requested.
struct StepGrowth {
  std::string where;  // the picture's
  std::size_t device = 0;
  /// The word that is counted: "step" where optimizers end steps; without one "backward" or
  /// "forward", since each begins a step then.
  std::string unit;
  std::int64_t every = 1;  // n; 0: parts differ, or grow at unequal distances
  /// The first of them that grows, and the last that is compared (n above 1: that grows), from 1.
  std::int64_t since = 0, last = 0;
  std::int64_t least = 0, most = 0;  // bytes that one leaves behind; on average, if parts differ
  std::int64_t filled = 0;           // bytes of the blocks, on average
  std::int64_t reserved = 0;         // at its highest in the last
  std::vector<Part> parts;           // of one, on average; those first that grow fastest
  /// The holder of most of each part in the program, where it is known.
  std::vector<Holder> holders;
  std::vector<std::string> often;  // of each part: "a step", "every 5th step", "in 9 of 40 steps"
  std::vector<bool> replaced;      // of each part: its blocks give way to larger ones
  double rate() const {            // bytes a step
    return static_cast<double>(most) / static_cast<double>(every > 1 ? every : 1);
  }
};

/// A place grows if each step since some step, or every n-th, has left blocks of it behind that are
/// alive when the last step begins, and more than were freed there meanwhile: blocks that had been
/// alive for more than two steps. The last two steps do not count, since a step may keep something
/// for the next. None without three steps that grow, or if another n-th step has gone by without;
/// at unequal distances, without eight of them that go on until the end.
/// So does one where blocks give way to larger ones (torch.cat): at the begins of steps more bytes
/// are alive each time, in no more blocks, by the same amount four times or by any eight times.
/// `picture`: with all its moments.
std::optional<StepGrowth> growth_of(const MemoryPicture& picture);

/// "rank 0 grows by 224.2 MiB a step since step 2: 192 MiB in 6 blocks, activations, evaluate
/// leak.py:8; ...; held by `total_loss` in main (leak.py:23); at this rate 4 GiB are full in step
/// 17", since reserved grows by as much; no rate where all is held by cycles, which the collector
/// frees, or by works of a process group, and none where blocks give way to larger ones.
/// `capacity`: of the GPU; 0: not known, or it has been full.
std::string growth_text(const StepGrowth& growth, Bytes capacity);

}  // namespace tidemark
