// The record of `tidemark fit`: which values of a program's variables fit which GPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// A GPU as PyTorch can use it.
struct FitGpu {
  std::string name;
  Bytes total = 0;              // as PyTorch prints it
  Bytes context = 0, nccl = 0;  // held outside PyTorch's allocator; the second by NCCL's programs
  std::string total_source, context_source, nccl_source;
  /// Bytes left for the allocator.
  Bytes capacity(bool with_nccl) const { return total - context - (with_nccl ? nccl : 0); }
  std::optional<double> price;  // an hour, of --prices
};

struct FitVariable {
  std::string name;
  bool searched = false;  // a range; else a list, of which every value runs
  std::vector<std::string> values;
};

using FitValues = std::map<std::string, std::string>;

/// One run of the program.
struct FitRun {
  FitValues values;
  std::string gpu;       // the profile that it ran on
  Bytes capacity = 0;    // that each of its GPUs had
  bool room = false;     // more than any GPU has: nothing could run out
  int exit_code = 0;     // of the program; 0 if it ended early on purpose
  bool steady = false;   // ended early because its steps repeat
  bool nccl = false;     // it has called NCCL
  bool stepped = false;  // an optimizer of torch.optim has stepped
  std::string last;      // line of its output, where the exit code is not 0
  bool killed = false;   // ended by a signal, which says nothing of the program; `unknown` has it
  std::string unknown;   // why its peaks are not known; empty: they are
  std::string changed;   // by `tidemark advise`
  std::string worst;     // the place with the highest reserved bytes: "rank 3 cuda:1"
  Bytes allocated = 0, active = 0;  // the highest of all its GPUs
  Bytes reserved = 0;  // likewise, with what the process had outside PyTorch's allocator
  Bytes outside = 0;   // that alone
  Bytes limit = 0;     // that a process may have (its memory fraction); 0: no limit of its own
  std::optional<SharedGpu> shared;     // the GPU of which several processes together had the most
  std::int64_t retries = 0, ooms = 0;  // of all its GPUs
  std::int64_t step_ns = 0;            // of the virtual clock; 0: not measured
  // Figures of the process with the most; 0: there was none, or it is not known.
  std::int64_t tokens = 0;       // that an nn.Embedding got in a step
  std::int64_t logits = 0;       // elements of the largest input of cross_entropy
  std::int64_t states = 0;       // elements of an optimizer's states of 32 bits
  std::int64_t shards = 0;       // ranks over which FSDP shards
  std::int64_t collectives = 0;  // calls of NCCL in a step
  double seconds = 0;            // of this machine
  bool cached = false;
  std::optional<AliveAtPeak> alive;
};

/// A combination of the listed values on a GPU.
struct FitAnswer {
  FitValues values;  // of the lists
  std::string gpu;
  std::string room;    // profile of the runs with room to spare that count
  Bytes capacity = 0;  // for the allocator
  Bytes limit = 0;     // that the program allows itself (memory fraction); 0: no limit of its own
  /// What it can have of the GPU.
  Bytes most() const { return limit > 0 && limit < capacity ? limit : capacity; }
  std::string verdict;  // "fits", "does not fit", "refused by the program", "unknown", "not run"
  std::string largest;  // of the searched variable; empty where nothing is searched or fits
  std::string next;     // the next value that does not fit; empty: none was found
  std::optional<FitRun> run;     // of the largest value that fits, else of the nearest miss
  std::optional<Bytes> missing;  // what `next`, or the nearest miss, needs beyond the capacity
  std::string because;           // what grows most from the largest value to the next
  std::string why;               // of refused, unknown and not run
};

/// A change of a program that needs no edit of it, and what it saves.
struct AdviceRow {
  std::string change;
  std::string how;      // "exact": the program ran so; "computed": from the record of its run
  std::string outcome;  // "saves", "does not save", "nothing to change", "does not run"
  std::string values;   // that the program computes: "the same", "of less precision"
  std::string fits;     // the GPU: "yes", "no"; empty: not known
  std::string why;      // the line of a program that does not run; what was computed
  Bytes reserved_saved = 0, allocated_saved = 0;  // less than the unchanged program at its peaks
  std::optional<FitRun> run;                      // of an exact row
};

struct Advice {
  FitValues values;
  std::string gpu;
  Bytes capacity = 0;
  FitRun run;        // of the unchanged program, with room to spare
  std::string fits;  // it fits the GPU unchanged: "yes", "no"; empty: not known
  std::vector<AdviceRow> rows;
};

struct FitRecord {
  std::vector<std::string> program;
  RunRecord run;
  std::vector<FitGpu> gpus;
  std::vector<FitVariable> variables;
  std::vector<FitAnswer> answers;
  std::vector<FitRun> runs;
  std::vector<std::string> notes;  // a sentence each
  std::optional<Advice> advice;    // of --advise: on the nearest combination that does not fit
};

}  // namespace tidemark
