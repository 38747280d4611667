// The record of a program under `tidemark exec`: a part of its trial.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/rank.h"

namespace tidemark {

/// Peaks of a process on one device, of PyTorch's caching allocator, over the whole process.
struct DeviceRecord {
  int device = 0;
  Bytes allocated = 0, active = 0, reserved = 0, requested = 0;
  std::int64_t retries = 0, ooms = 0;
  // By the books of the device's driver, in which the allocator's memory is `reserved`.
  Bytes outside = 0;  // highest that the process had outside the allocator
  Bytes taken = 0;    // highest of both together; reports of older versions have 0: use all()
  Bytes refused = 0, refused_left = 0;  // the last request outside it for which there was no room
  Bytes limit = 0;  // that the process may have (its memory fraction); 0: no limit of its own
  /// The peak that a GPU must have room for.
  Bytes all() const { return taken > reserved ? taken : reserved; }
};

/// NCCL calls of one function on one communicator. The bytes of a call are those of the larger of
/// its two buffers.
struct CollectiveCalls {
  std::string communicator;
  int ranks = 0;
  std::string function;
  std::int64_t calls = 0;
  Bytes bytes = 0;
};

/// A place where the program asked for a value that is not known, and what it was told.
struct UnknownValue {
  std::string operation, answer, line;  // line: "train.py:12"; empty in the backward
  bool decides = false;                 // the program branched by it
  std::int64_t count = 0;
};

struct ProcessRecord {
  std::optional<int> rank;
  int pid = 0;
  bool ended = false;  // by itself; else its peaks are those up to its last allocation,
  std::string last;    // which was "in backward of step 2, with 61.3 GiB allocated"
  std::vector<DeviceRecord> devices;
  std::vector<Race> races;
  std::vector<CollectiveCalls> collectives;
  std::vector<UnknownValue> unknown;
  std::int64_t stood_in = 0;  // collectives that took the rank's own values for absent partners'
  // In the file of a process alone, for SharedGpu: the names that its machine has of the GPUs which
  // it sees, and its time since 1970.
  std::string host = {};
  std::vector<std::string> gpus = {};
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// A GPU that several processes used at the same time, and where they had most of it together.
struct SharedGpu {
  std::string gpu;                  // "0", as CUDA_VISIBLE_DEVICES has it
  std::vector<std::string> places;  // "rank 3"
  Bytes bytes = 0;  // at most: the sum of their peaks, and a context for each but the first
  bool operator==(const SharedGpu&) const = default;
};

/// Blocks of one kind of tensor, allocated in one module and at one Python line.
struct AlivePart {
  MemoryKind kind = MemoryKind::other;
  std::string module;  // "layers.*.attention": numbers are left out; may be empty
  std::string site;    // "step train.py:12"
  std::int64_t count = 0;
  Bytes bytes = 0;       // as requested
  std::string source{};  // the text of that line; empty: not known
};
/// Memory that is alive at the highest peak of active memory; the parts sum to `active`, as
/// requested.
struct AliveAtPeak {
  std::string where;  // "rank3"
  Bytes active = 0, reserved = 0;
  std::vector<AlivePart> parts;
};

/// In the folder of a report: the records of a job (mpirun, srun) whose processes have not all
/// ended.
inline constexpr const char* kJobFolder = "ranks";

/// The highest peaks of a program that ran out of memory, in a second run with room to spare.
struct MemoryNeed {
  Bytes allocated = 0, reserved = 0;
  std::string until = {};  // how that run ended early: then it may need more; empty: it did not
};

/// The kinds of a finding, the most important first. nothing: no memory was recorded.
enum class FindingKind { out_of_memory, ended, grows, peak, nothing };
constexpr auto words(FindingKind) {
  return std::array{"out of memory", "ended", "grows", "peak", "nothing"};
}

/// The outcome of a program in one sentence that begins with its script.
struct Finding {
  FindingKind kind = FindingKind::nothing;
  std::string text;
};

struct ProgramRecord {
  std::vector<std::string> words;        // as it was started
  int exit_code = 0;                     // the program's own
  std::vector<ProcessRecord> processes;  // by rank
  std::optional<MemoryNeed> needs = {};
  std::vector<SharedGpu> shared = {};
  std::optional<Finding> finding = {};     // none in reports before 3.1
  std::vector<std::string> findings = {};  // what it rests on, the most important first
};

}  // namespace tidemark
