// Pipeline schedules as data: which rank runs which pass of which stage for which microbatch, in
// what order. Nothing here runs anything.
#pragma once

#include <string>
#include <vector>

namespace tidemark::zero_bubble_detach {

/// An action on one microbatch on one stage. `backward` is input and weight gradients in one
/// go.
enum class Pass { forward, backward, input, weight };

struct Action {
  Pass pass = Pass::forward;
  int stage = 0, microbatch = 0;
  auto operator<=>(const Action&) const = default;
};

/// GPipe (Huang et al., 2019), 1F1B (Narayanan et al., 2021, 2.2.1), interleaved 1F1B (the same,
/// 2.2.2), ZB-H1 and ZB-H2 (Qi et al., 2024, section 3), the interleaved form of ZB-H1, and ZB-V
/// (Qi et al., 2024, section 6).
enum class ScheduleKind { gpipe, one_f_one_b, interleaved, zb_h1, zb_h2, interleaved_zb, zb_v };

const char* name_of(ScheduleKind kind);
/// True if its backward is split into input and weight gradients.
bool splits_backward(ScheduleKind kind);
/// True if it takes more than one stage a rank (ZB-V: exactly two).
bool interleaves(ScheduleKind kind);

struct PipelineSchedule {
  ScheduleKind kind = ScheduleKind::gpipe;
  int ranks = 1, stages = 1, microbatches = 1;
  std::vector<std::vector<Action>> order;  // by rank

  /// Stages follow each other around the ranks; in a V they come back the way they went.
  int rank_of(int stage) const;
};

/// Why there is no such schedule, or empty. `stages_a_rank` is 1 but for interleaved ones.
std::string unschedulable(ScheduleKind kind, int ranks, int stages_a_rank, int microbatches);

/// Throws std::invalid_argument where unschedulable() has a reason.
PipelineSchedule make_schedule(ScheduleKind kind, int ranks, int stages_a_rank, int microbatches);

/// One line of a rank's program: an action, or the transfer of its result. `send` follows the
/// sender's action, `receive` is put into the receiver's list at that moment, so that ranks which
/// work through their lists in order never block each other.
struct Move {
  enum class Kind { compute, send, receive } kind = Kind::compute;
  Action action;  // of a transfer: the sender's
  int peer = 0;   // of a transfer
  bool operator==(const Move&) const = default;
};

/// Every rank's program. Results that stay on their rank are not moved. Throws std::logic_error
/// where ranks that work through their lists side by side would wait for each other for ever.
std::vector<std::vector<Move>> with_transfers(const PipelineSchedule& schedule);

}  // namespace tidemark::zero_bubble_detach
