// Every event of the caching allocator in a variant's steps on one rank, by which two machines are
// compared. Blocks, segments and streams are numbered in their order, because addresses and handles
// differ between machines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/rank_place.h"

namespace tidemark {

struct BlockEvent {
  AllocatorAction action = AllocatorAction::alloc;
  /// The how-manieth alloc its block was (the how-manieth segment_alloc or segment_map its
  /// segment), from 0; -1: of before the first event.
  std::int64_t block = -1;
  Bytes bytes = 0;           // as requested; of segments their own
  std::uint32_t stream = 0;  // in the order of first use
  std::string op;            // that allocated it, or empty; for people
};
struct StepEvents {
  std::vector<BlockEvent> events;
  std::vector<Phase> phases;  // none of the construction
};
struct EventLog : RankPlace {
  std::string unheld;             // as RankRecord has it
  std::vector<StepEvents> steps;  // the first: while the program was built
};

/// A variant's events on one rank as a file: `trial`, which has neither variants nor verdicts, as
/// report.json has it, with this variant and rank alone.
std::string event_text(TrialRecord trial, const std::string& variant, const RankRecord& rank);
/// The events of every variant and rank of a trial. Throws std::runtime_error ("where: ...") if
/// there are none.
std::vector<EventLog> event_logs(const TrialRecord& trial, const std::string& where);

}  // namespace tidemark
