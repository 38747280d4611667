// Order between the ranks of a schedule: which rank waits for which, and in which order results
// travel.
#include <algorithm>
#include <set>
#include <stdexcept>

#include "cases/zero_bubble_detach/pipeline_schedule.h"

namespace tidemark::zero_bubble_detach {
namespace {

std::string text(const Action& a) {
  static constexpr const char* kPasses[] = {"forward", "backward", "input gradient",
                                            "weight gradient"};
  return std::string(kPasses[static_cast<int>(a.pass)]) + " of microbatch " +
         std::to_string(a.microbatch) + " on stage " + std::to_string(a.stage);
}

/// Side by side, as far as it goes. `done(rank, action)` in an order that respects who needs what.
/// Returns the first action that could not run, of the lowest rank, or none.
template <class Done>
const Action* run(const PipelineSchedule& schedule, Done done) {
  std::set<Action> finished;
  const auto has = [&](Pass pass, int stage, int microbatch) {
    return finished.contains({pass, stage, microbatch});
  };
  const auto ready = [&](const Action& a) {
    switch (a.pass) {
      case Pass::forward:
        return a.stage == 0 || has(Pass::forward, a.stage - 1, a.microbatch);
      case Pass::weight:
        return has(Pass::input, a.stage, a.microbatch);
      default:
        return has(Pass::forward, a.stage, a.microbatch) &&
               (a.stage + 1 == schedule.stages || has(Pass::input, a.stage + 1, a.microbatch) ||
                has(Pass::backward, a.stage + 1, a.microbatch));
    }
  };
  std::vector<std::size_t> next(schedule.order.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] == schedule.order[rank].size()) continue;
      const Action& action = schedule.order[rank][next[rank]];
      if (!ready(action)) continue;
      finished.insert(action);
      done(static_cast<int>(rank), action);
      ++next[rank];
      progress = true;
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < schedule.order[rank].size()) return &schedule.order[rank][next[rank]];
  return nullptr;
}

}  // namespace

std::string fault_of(const PipelineSchedule& schedule) {
  if (static_cast<int>(schedule.order.size()) != schedule.ranks)
    return "orders for " + std::to_string(schedule.order.size()) + " ranks, not " +
           std::to_string(schedule.ranks);
  std::set<Action> seen;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    for (const Action& a : schedule.order[static_cast<std::size_t>(rank)]) {
      if (a.stage < 0 || a.stage >= schedule.stages || a.microbatch < 0 ||
          a.microbatch >= schedule.microbatches)
        return text(a) + " does not exist";
      if (schedule.rank_of(a.stage) != rank)
        return text(a) + " is not rank " + std::to_string(rank) + "'s";
      if (!seen.insert(a).second) return text(a) + " is there twice";
    }
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int m = 0; m < schedule.microbatches; ++m) {
      const auto has = [&](Pass pass) { return seen.contains({pass, stage, m}); };
      if (!has(Pass::forward)) return text({Pass::forward, stage, m}) + " is missing";
      if (has(Pass::backward) ? has(Pass::input) || has(Pass::weight)
                              : !has(Pass::input) || !has(Pass::weight))
        return text({Pass::backward, stage, m}) +
               " must be there, or an input and a weight gradient in its place";
    }
  }
  const Action* stuck = run(schedule, [](int, const Action&) {});
  return stuck ? text(*stuck) + " waits for ever" : "";
}

int most_in_flight(const PipelineSchedule& schedule, int rank) {
  int now = 0, most = 0;
  for (const Action& a : schedule.order.at(static_cast<std::size_t>(rank))) {
    if (a.pass == Pass::forward) most = std::max(most, ++now);
    if (a.pass == Pass::backward || a.pass == Pass::weight) --now;
  }
  return most;
}

std::vector<std::vector<Move>> with_transfers(const PipelineSchedule& schedule) {
  std::vector<std::vector<Move>> programs(schedule.order.size());
  const Action* stuck = run(schedule, [&](int rank, const Action& action) {
    auto& mine = programs[static_cast<std::size_t>(rank)];
    mine.push_back({Move::Kind::compute, action, rank});
    const int to = action.stage + (action.pass == Pass::forward ? 1 : -1);
    if (action.pass == Pass::weight || to < 0 || to >= schedule.stages) return;
    const int peer = schedule.rank_of(to);
    if (peer == rank) return;
    mine.push_back({Move::Kind::send, action, peer});
    programs[static_cast<std::size_t>(peer)].push_back({Move::Kind::receive, action, rank});
  });
  if (stuck)
    throw std::logic_error("schedule " + std::string(name_of(schedule.kind)) + ": " + text(*stuck) +
                           " waits for ever");
  return programs;
}

}  // namespace tidemark::zero_bubble_detach
