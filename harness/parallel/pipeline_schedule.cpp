// The orders of the schedules, rank by rank.
#include "harness/parallel/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace tidemark {
namespace {

using Order = std::vector<Action>;

/// The passes of one rank, in the making: hands out microbatches in order, by pass and stage.
class Writer {
 public:
  void add(Pass pass, int stage) { order.push_back({pass, stage, next_[{pass, stage}]++}); }
  Order order;

 private:
  std::map<std::pair<Pass, int>, int> next_;
};

Order gpipe(int rank, int microbatches) {
  Writer w;
  for (int m = 0; m < microbatches; ++m) w.add(Pass::forward, rank);
  for (int m = 0; m < microbatches; ++m) w.add(Pass::backward, rank);
  return w.order;
}

/// The family of 1F1B: `warmup` forwards, then one forward and one backward in turn, then the
/// backwards that are left. A round takes `round` microbatches through one of the rank's stages
/// before the next stage gets them. With `split`, weight gradients come `delay` input gradients
/// late.
struct Steady {
  int ranks, stages_a_rank, microbatches, round, warmup, delay;
  bool split;

  Order order(int rank) const {
    const int total = stages_a_rank * microbatches;
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
};

Order steady(ScheduleKind kind, int rank, int ranks, int stages_a_rank, int microbatches) {
  const int after = ranks - 1 - rank;  // ranks between this one and the last
  const int rounds = std::max(1, microbatches / ranks);
  Steady s{.ranks = ranks,
           .stages_a_rank = stages_a_rank,
           .microbatches = microbatches,
           .round = microbatches / rounds,
           .warmup = after,
           .delay = rank,
           .split = splits_backward(kind)};
  const int others = (stages_a_rank - 1) * s.round;  // through the stages before the last one
  if (kind == ScheduleKind::interleaved) s.warmup = others + 2 * after;
  if (kind == ScheduleKind::interleaved_zb) s.warmup = others + after;
  if (kind == ScheduleKind::zb_h2) {
    s.warmup = 2 * after;
    s.delay = 2 * rank;
  }
  s.warmup = std::min(s.warmup, stages_a_rank * microbatches);
  return s.order(rank);
}

/// Written for at least 2 ranks - 1 microbatches; those that there are not are left out.
Order vee(int rank, int ranks, int microbatches) {
  const int down = rank, up = 2 * ranks - 1 - rank;  // its stages
  const int count = std::max(2 * ranks - 1, microbatches);
  Writer w;
  int down_f = 0, up_f = 0, down_w = 0, up_w = 0, down_i = 0, up_i = 0;
  const auto forward = [&](int stage) {
    w.add(Pass::forward, stage);
    ++(stage == down ? down_f : up_f);
  };
  const auto input = [&](int stage) {
    w.add(Pass::input, stage);
    ++(stage == down ? down_i : up_i);
  };
  const auto weight = [&](int stage) {
    w.add(Pass::weight, stage);
    ++(stage == down ? down_w : up_w);
  };
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) forward(down);
  for (int i = 0; i < rank; ++i) forward(up), forward(down);
  for (int i = 0; i < ranks - rank; ++i) forward(up), input(up), weight(up);
  while (up_f < down_f || down_f < count) {
    if (down_f < count) forward(down);
    input(down), weight(down), forward(up), input(up), weight(up);
  }
  for (int i = 0; i < rank; ++i) input(down), input(up);
  for (int i = 0; i < ranks - rank; ++i) input(down), weight(down);
  while (up_w < up_i) weight(up);
  while (down_w < down_i) weight(down);
  std::erase_if(w.order, [&](const Action& a) { return a.microbatch >= microbatches; });
  return w.order;
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "GPipe";
    case ScheduleKind::one_f_one_b:
      return "1F1B";
    case ScheduleKind::interleaved:
      return "interleaved 1F1B";
    case ScheduleKind::zb_h1:
      return "ZB-H1";
    case ScheduleKind::zb_h2:
      return "ZB-H2";
    case ScheduleKind::interleaved_zb:
      return "interleaved zero bubble";
    case ScheduleKind::zb_v:
      return "ZB-V";
  }
  return "?";
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
  for (int rank = 0; rank < ranks; ++rank) {
    switch (kind) {
      case ScheduleKind::gpipe:
        schedule.order.push_back(gpipe(rank, microbatches));
        break;
      case ScheduleKind::zb_v:
        schedule.order.push_back(vee(rank, ranks, microbatches));
        break;
      default:
        schedule.order.push_back(steady(kind, rank, ranks, stages_a_rank, microbatches));
    }
  }
  return schedule;
}

}  // namespace tidemark
