// The finding of a program: its outcome in one sentence. The page's heading, summary.md, junit.xml,
// report.json and the terminal have the same one.
#pragma once

#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"
#include "harness/record/record.h"

namespace tidemark {

/// "train.py: out of memory in backward of step 2: it needs 1.4 GiB more than the 78.3 GiB that
/// PyTorch can have on h100-80g", "train.py grows by 2 MiB a step: held by `total` in main
/// (train.py:50)", "train.py: peak of 6.4 GiB, in backward of step 2: 3 GiB of activations, 2 GiB
/// of gradients". `peak` is that of its snapshots, or empty: then the sentence says no more than
/// the record.
Finding finding_of(const TrialRecord& trial, const HighestPeak& peak, const RunRecord& run);

/// The finding that the record has, or the one that it allows.
Finding finding_in(const TrialRecord& trial, const RunRecord& run);

/// The name of a program's script: "train.py" of "torchrun --nproc-per-node 2 a/train.py"; the
/// module behind -m; else the program's own.
std::string script_of(const std::vector<std::string>& words);

/// The picture of the device with the highest peak; nullptr where there is none.
const MemoryPicture* peak_picture(const HighestPeak& peak);

/// "in backward of step 2", without the step where steps are not told apart: the phase at a moment;
/// "" where there is none.
std::string phase_text(const MemoryPicture& picture, std::size_t moment);

/// " in backward of step 2": the phase in which an allocation failed; "" where it is not known.
std::string moment_of(const OutOfMemory& oom, const HighestPeak& peak);

/// True where a run with room has said how much more the program needs than it could have.
bool knows_need(const ProgramRecord& program, const RunRecord& run);

/// Bytes that a process can have on a device: those of the virtual GPU, or fewer by its memory
/// fraction. In words: "the 78.3 GiB that PyTorch can have on h100-80g".
Bytes most_of(const DeviceRecord& device, const RunRecord& run);
std::string most_text(const DeviceRecord& device, const RunRecord& run);
/// The word for DeviceRecord::all(): "reserved", or "taken" where memory outside the allocator is
/// in it.
std::string taken_word(const DeviceRecord& device);
/// "264 MiB outside PyTorch's allocator"; "" where there was none.
std::string outside_text(const DeviceRecord& device);

/// " on rank 3"; nothing of a program with one device and no rank.
std::string on_place(const ProgramRecord& program, const ProcessRecord& process,
                     const DeviceRecord& device);

/// The last allocation of a process on a device that failed; nullptr where its snapshot does not
/// have it.
const OutOfMemory* oom_of(const ProcessRecord& process, const DeviceRecord& device,
                          const HighestPeak& peak);

}  // namespace tidemark
