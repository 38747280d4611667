// The orders of the schedules, rank by rank, and transfers in an order in which no rank waits for
// ever.
#include "cases/zero_bubble_detach/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace tidemark::zero_bubble_detach {
namespace {

using Order = std::vector<Action>;

/// The passes of one rank, in the making: hands out microbatches in order, by pass and stage.
class Writer {
 public:
  void add(Pass pass, int stage) { order.push_back({pass, stage, next_[{pass, stage}]++}); }
  int count(Pass pass, int stage) { return next_[{pass, stage}]; }
  Order order;

 private:
  std::map<std::pair<Pass, int>, int> next_;
};

/// The family of 1F1B: `warmup` forwards, then one forward and one backward in turn, then the
/// backwards that are left (GPipe: all forwards first). A round takes `round` microbatches through
/// one of the rank's stages before the next stage gets them. Where backward is split, weight
/// gradients come `delay` input gradients late.
Order steady(ScheduleKind kind, int rank, int ranks, int stages_a_rank, int microbatches) {
  const int after = ranks - 1 - rank;  // ranks between this one and the last
  const int total = stages_a_rank * microbatches;
  const int round = microbatches / std::max(1, microbatches / ranks);
  const int others = (stages_a_rank - 1) * round;  // through the stages before the last one
  int warmup = after, delay = rank;
  if (kind == ScheduleKind::gpipe) warmup = total;
  if (kind == ScheduleKind::interleaved) warmup = others + 2 * after;
  if (kind == ScheduleKind::interleaved_zb) warmup = others + after;
  if (kind == ScheduleKind::zb_h2) warmup = 2 * after, delay = 2 * rank;
  warmup = std::min(warmup, total);

  const bool split = splits_backward(kind);
  const auto local = [&](int i) { return i / round % stages_a_rank; };
  const auto stage = [&](int i) { return local(i) * ranks + rank; };
  const auto back = [&](int i) { return (stages_a_rank - 1 - local(i)) * ranks + rank; };
  Writer w;
  int weights = 0;
  for (int i = 0; i < warmup; ++i) w.add(Pass::forward, stage(i));
  for (int i = 0; i < total; ++i) {
    if (warmup + i < total) w.add(Pass::forward, stage(warmup + i));
    w.add(split ? Pass::input : Pass::backward, back(i));
    if (split && i >= delay) w.add(Pass::weight, back(weights++));
  }
  while (split && weights < total) w.add(Pass::weight, back(weights++));
  return w.order;
}

/// Written for at least 2 ranks - 1 microbatches; those that there are not are left out.
Order vee(int rank, int ranks, int microbatches) {
  const int down = rank, up = 2 * ranks - 1 - rank;  // its stages
  const int count = std::max(2 * ranks - 1, microbatches);
  Writer w;
  const auto forward = [&](int stage) { w.add(Pass::forward, stage); };
  const auto input = [&](int stage) { w.add(Pass::input, stage); };
  const auto weight = [&](int stage) { w.add(Pass::weight, stage); };
  const auto begun = [&](int stage) { return w.count(Pass::forward, stage); };
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) forward(down);
  for (int i = 0; i < rank; ++i) forward(up), forward(down);
  for (int i = 0; i < ranks - rank; ++i) forward(up), input(up), weight(up);
  while (begun(up) < begun(down) || begun(down) < count) {
    if (begun(down) < count) forward(down);
    input(down), weight(down), forward(up), input(up), weight(up);
  }
  for (int i = 0; i < rank; ++i) input(down), input(up);
  for (int i = 0; i < ranks - rank; ++i) input(down), weight(down);
  for (const int stage : {up, down})
    while (w.count(Pass::weight, stage) < w.count(Pass::input, stage)) weight(stage);
  std::erase_if(w.order, [&](const Action& a) { return a.microbatch >= microbatches; });
  return w.order;
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  static constexpr const char* kNames[] = {
      "GPipe", "1F1B", "interleaved 1F1B", "ZB-H1", "ZB-H2", "interleaved zero bubble", "ZB-V"};
  return kNames[static_cast<int>(kind)];
}

bool splits_backward(ScheduleKind kind) { return kind >= ScheduleKind::zb_h1; }

bool interleaves(ScheduleKind kind) {
  return kind == ScheduleKind::interleaved || kind == ScheduleKind::interleaved_zb ||
         kind == ScheduleKind::zb_v;
}

int PipelineSchedule::rank_of(int stage) const {
  const int lap = stage / ranks, place = stage % ranks;
  return kind == ScheduleKind::zb_v && lap % 2 == 1 ? ranks - 1 - place : place;
}

std::string unschedulable(ScheduleKind kind, int ranks, int stages_a_rank, int microbatches) {
  const std::string name = name_of(kind);
  if (ranks < 1 || stages_a_rank < 1 || microbatches < 1)
    return name + " needs at least one rank, one stage a rank and one microbatch";
  if (!interleaves(kind) && stages_a_rank != 1)
    return name + " has one stage a rank, not " + std::to_string(stages_a_rank);
  if (kind == ScheduleKind::zb_v && stages_a_rank != 2)
    return name + " has two stages a rank, not " + std::to_string(stages_a_rank);
  if (interleaves(kind) && kind != ScheduleKind::zb_v) {
    const int rounds = std::max(1, microbatches / ranks);
    if (microbatches % rounds != 0)
      return name +
             " takes its microbatches in rounds of equal length: " + std::to_string(microbatches) +
             " are not a multiple of " + std::to_string(rounds);
  }
  return "";
}

PipelineSchedule make_schedule(ScheduleKind kind, int ranks, int stages_a_rank, int microbatches) {
  if (auto why = unschedulable(kind, ranks, stages_a_rank, microbatches); !why.empty())
    throw std::invalid_argument(why);
  PipelineSchedule schedule{kind, ranks, ranks * stages_a_rank, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank)
    schedule.order.push_back(kind == ScheduleKind::zb_v
                                 ? vee(rank, ranks, microbatches)
                                 : steady(kind, rank, ranks, stages_a_rank, microbatches));
  return schedule;
}

std::vector<std::vector<Move>> with_transfers(const PipelineSchedule& schedule) {
  std::set<Action> finished;
  const auto ready = [&](const Action& a) {
    const auto has = [&](Pass pass, int stage) {
      return finished.contains({pass, stage, a.microbatch});
    };
    if (a.pass == Pass::forward) return a.stage == 0 || has(Pass::forward, a.stage - 1);
    if (a.pass == Pass::weight) return has(Pass::input, a.stage);
    return has(Pass::forward, a.stage) &&
           (a.stage + 1 == schedule.stages || has(Pass::input, a.stage + 1) ||
            has(Pass::backward, a.stage + 1));
  };
  std::vector<std::vector<Move>> programs(schedule.order.size());
  const auto run = [&](std::size_t rank, const Action& action) {
    finished.insert(action);
    const int self = static_cast<int>(rank);
    programs[rank].push_back({Move::Kind::compute, action, self});
    const int to = action.stage + (action.pass == Pass::forward ? 1 : -1);
    if (action.pass == Pass::weight || to < 0 || to >= schedule.stages) return;
    const int peer = schedule.rank_of(to);
    if (peer == self) return;
    programs[rank].push_back({Move::Kind::send, action, peer});
    programs[static_cast<std::size_t>(peer)].push_back({Move::Kind::receive, action, self});
  };
  std::vector<std::size_t> next(schedule.order.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const auto& order = schedule.order[rank];
      if (next[rank] == order.size() || !ready(order[next[rank]])) continue;
      run(rank, order[next[rank]++]);
      progress = true;
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < schedule.order[rank].size())
      throw std::logic_error("schedule " + std::string(name_of(schedule.kind)) + ": rank " +
                             std::to_string(rank) + " waits for ever");
  return programs;
}

}  // namespace tidemark::zero_bubble_detach
