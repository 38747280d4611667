// The record of a program under `tidemark exec`: a part of its trial.
#pragma once

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

struct ProgramRecord {
  std::vector<std::string> words;        // as it was started
  int exit_code = 0;                     // the program's own
  std::vector<ProcessRecord> processes;  // by rank
  std::optional<MemoryNeed> needs = {};
  std::vector<std::string> findings = {};  // the outcome in sentences, the most important first
};

}  // namespace tidemark
