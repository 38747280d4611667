// Transfers between the ranks of a schedule, in an order in which no rank waits for ever.
#include <set>
#include <stdexcept>

#include "cases/zero_bubble_detach/pipeline_schedule.h"

namespace tidemark::zero_bubble_detach {

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
