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
  /// "forward", since each begins a step then; without modules a range of the program ("`decode`"),
  /// or "`empty_cache`", its calls of torch.cuda.empty_cache.
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

/// "a step", "every 5th step"; 0, of places that differ: "a step on average".
std::string how_often(std::int64_t every, const std::string& unit);

/// A place (kind, module, line) grows if each step since some step, or every n-th, has left blocks
/// of it behind. Left behind is a block that the program has not freed (one that waits for a stream
/// is freed) when the last step begins, and that is older then than any of this place that was
/// freed: at least two steps, since a step may keep something for the next. Where steps are
/// forwards or ranges alone, what is given back after the last of them is not left behind either.
/// None
///  * without three steps that grow, eight of forwards and ranges, or if another n-th step has gone
///    by without;
///  * at unequal distances, without eight steps that grow, a third of them in the second half, and
///    none for so long at the end as comes once in 200 times where each step grows as often as
///    before;
///  * if as much has been there before the growth, or half as much, and was given back: a saw;
///  * of workspaces of cuBLAS, which are bounded by the streams of PyTorch's pool;
///  * of forwards of threads that overlap: none of them is a step.
/// So does one where blocks give way to larger ones (torch.cat): at the begins of steps more bytes
/// are alive each time, in no more blocks, by the same amount four times, by any eight times, or by
/// any 16 times where some blocks stay.
/// growth_simulation_test counts what this rule finds, and what it takes for growth falsely.
/// `picture`: with all its moments.
std::optional<StepGrowth> growth_of(const MemoryPicture& picture);

/// "2 MiB a step", "1 MiB to 3 MiB every 5th step".
std::string rate_text(const StepGrowth& growth);

/// "held by `total` in main (train.py:9)"; where that is not known, the kind and the line that grow
/// fastest.
std::string holder_text(const StepGrowth& growth);

/// "rank 0 grows by 224.2 MiB a step since step 2: 192 MiB in 6 blocks, activations, evaluate
/// leak.py:8; ...; held by `total_loss` in main (leak.py:23); at this rate 4 GiB are full in step
/// 17", since reserved grows by as much; no rate where a part is held by cycles, which the
/// collector frees, or by works of a process group, and none where blocks give way to larger ones.
/// `capacity`: of the GPU; 0: not known, or it has been full.
std::string growth_text(const StepGrowth& growth, Bytes capacity);

/// The texts of several devices, those that grow fastest first. Devices with the same growth are
/// one: "rank 0, rank 1 cuda:1 and 6 more grow by 2 MiB a step ...", full when the first of them
/// is.
std::vector<std::string> growth_texts(const std::vector<StepGrowth>& growths, Bytes capacity);

}  // namespace tidemark
