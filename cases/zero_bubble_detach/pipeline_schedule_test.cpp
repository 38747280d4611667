// Every schedule at 1 to 8 ranks and many microbatches has every pass once, in an order in which no
// rank waits for ever, and stays within the memory that its paper promises.
#include "cases/zero_bubble_detach/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace tidemark::zero_bubble_detach {
namespace {

template <class Check>
int everywhere(Check check) {
  int checked = 0;
  for (int i = 0; i <= static_cast<int>(ScheduleKind::zb_v); ++i)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int stages = 1; stages <= 4; ++stages)
        for (int microbatches = 1; microbatches <= 24; ++microbatches) {
          const auto kind = static_cast<ScheduleKind>(i);
          if (!unschedulable(kind, ranks, stages, microbatches).empty()) continue;
          SCOPED_TRACE(std::string(name_of(kind)) + " ranks " + std::to_string(ranks) + " stages " +
                       std::to_string(stages) + " microbatches " + std::to_string(microbatches));
          check(make_schedule(kind, ranks, stages, microbatches));
          ++checked;
        }
  return checked;
}

// Every microbatch once for each stage and pass, on the stage's rank.
TEST(Schedule, HasEveryPassOnce) {
  const int checked = everywhere([](const PipelineSchedule& s) {
    std::vector<std::vector<Action>> all(static_cast<std::size_t>(s.ranks));
    const auto passes = splits_backward(s.kind)
                            ? std::vector{Pass::forward, Pass::input, Pass::weight}
                            : std::vector{Pass::forward, Pass::backward};
    for (const Pass pass : passes)
      for (int stage = 0; stage < s.stages; ++stage)
        for (int m = 0; m < s.microbatches; ++m)
          all[static_cast<std::size_t>(s.rank_of(stage))].push_back({pass, stage, m});
    auto order = s.order;
    for (auto& of_rank : order) std::ranges::sort(of_rank);
    EXPECT_EQ(order, all);
  });
  EXPECT_GT(checked, 1500);
}

// The papers' bounds by ScheduleKind, in microbatches of the whole rank (a ZB-V rank holds two
// halves each).
int bound(const PipelineSchedule& s, int rank) {
  const int after = s.ranks - 1 - rank, stages_a_rank = s.stages / s.ranks;
  const int rounds = std::max(1, s.microbatches / s.ranks);
  const int others = (stages_a_rank - 1) * (s.microbatches / rounds);
  const int bounds[] = {s.microbatches, after + 1,       others + 2 * after + 1,
                        s.ranks,        2 * s.ranks - 1, others + s.ranks,
                        2 * s.ranks};
  return bounds[static_cast<int>(s.kind)];
}

/// Most microbatches of all of a rank's stages together that are under way at once: begun, and not
/// yet done with their last pass.
int most_in_flight(const PipelineSchedule& schedule, int rank) {
  int now = 0, most = 0;
  for (const Action& a : schedule.order.at(static_cast<std::size_t>(rank))) {
    if (a.pass == Pass::forward) most = std::max(most, ++now);
    if (a.pass == Pass::backward || a.pass == Pass::weight) --now;
  }
  return most;
}

TEST(Schedule, KeepsWhatItsPaperPromisesInFlight) {
  everywhere([](const PipelineSchedule& s) {
    for (int rank = 0; rank < s.ranks; ++rank) {
      const int most = std::min(bound(s, rank), s.stages / s.ranks * s.microbatches);
      EXPECT_LE(most_in_flight(s, rank), most) << "rank " << rank;
      if (s.microbatches >= 2 * s.ranks) {
        EXPECT_EQ(most_in_flight(s, rank), most) << "rank " << rank;
      }
    }
  });
}

// Ranks that work through their lists in order, with sends that wait for their receiver.
TEST(Transfers, NeverBlockEachOther) {
  everywhere([](const PipelineSchedule& s) {
    std::vector<std::deque<Move>> left;
    for (const auto& program : with_transfers(s)) left.emplace_back(program.begin(), program.end());
    const auto goes_on = [&](std::size_t rank) {
      if (left[rank].empty()) return false;
      const Move move = left[rank].front();
      if (move.kind == Move::Kind::receive) return false;  // goes with its send
      if (move.kind == Move::Kind::send) {
        auto& theirs = left[static_cast<std::size_t>(move.peer)];
        const Move receive{Move::Kind::receive, move.action, static_cast<int>(rank)};
        if (theirs.empty() || theirs.front() != receive) return false;
        theirs.pop_front();
      }
      left[rank].pop_front();
      return true;
    };
    for (std::size_t rank = 0; rank < left.size();) rank = goes_on(rank) ? 0 : rank + 1;
    for (const auto& rest : left) EXPECT_TRUE(rest.empty());
  });
}

TEST(Schedule, RefusesWhatDoesNotFit) {
  EXPECT_THROW(make_schedule(ScheduleKind::zb_v, 2, 1, 4), std::invalid_argument);
  EXPECT_THROW(make_schedule(ScheduleKind::one_f_one_b, 2, 2, 4), std::invalid_argument);
  EXPECT_THROW(make_schedule(ScheduleKind::interleaved_zb, 2, 2, 5), std::invalid_argument);
  EXPECT_THROW(make_schedule(ScheduleKind::gpipe, 0, 1, 4), std::invalid_argument);
}

TEST(Transfers, RefuseAnOrderInWhichARankWaitsForEver) {
  const auto good = make_schedule(ScheduleKind::zb_h1, 3, 1, 4);
  for (const Pass first : {Pass::input, Pass::weight}) {
    auto broken = good;  // a pass before the one that it needs
    const auto later = std::ranges::find(broken.order[1], Action{first, 1, 0});
    std::rotate(broken.order[1].begin(), later, later + 1);
    EXPECT_THROW(with_transfers(broken), std::logic_error);
  }
}

}  // namespace
}  // namespace tidemark::zero_bubble_detach
