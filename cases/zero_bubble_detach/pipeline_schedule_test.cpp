// Every schedule at 1 to 8 ranks and many microbatches is valid, stays within the memory its paper
// promises, and every kind of broken schedule is found.
#include "cases/zero_bubble_detach/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace tidemark::zero_bubble_detach {
namespace {

constexpr ScheduleKind kAll[] = {ScheduleKind::gpipe,       ScheduleKind::one_f_one_b,
                                 ScheduleKind::interleaved, ScheduleKind::zb_h1,
                                 ScheduleKind::zb_h2,       ScheduleKind::interleaved_zb,
                                 ScheduleKind::zb_v};

template <class Check>
int everywhere(Check check) {
  int checked = 0;
  for (const auto kind : kAll)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int stages = 1; stages <= 4; ++stages)
        for (int microbatches = 1; microbatches <= 24; ++microbatches) {
          if (!unschedulable(kind, ranks, stages, microbatches).empty()) continue;
          SCOPED_TRACE(std::string(name_of(kind)) + " ranks " + std::to_string(ranks) + " stages " +
                       std::to_string(stages) + " microbatches " + std::to_string(microbatches));
          check(make_schedule(kind, ranks, stages, microbatches));
          ++checked;
        }
  return checked;
}

TEST(Schedule, IsValidEverywhere) {
  EXPECT_GT(everywhere([](const PipelineSchedule& s) { EXPECT_EQ(fault_of(s), ""); }), 1500);
}

// The papers' bounds, in microbatches of the whole rank (a ZB-V rank holds two halves each).
int bound(const PipelineSchedule& s, int rank) {
  const int after = s.ranks - 1 - rank, stages_a_rank = s.stages / s.ranks;
  const int rounds = std::max(1, s.microbatches / s.ranks);
  const int others = (stages_a_rank - 1) * (s.microbatches / rounds);
  switch (s.kind) {
    case ScheduleKind::gpipe:
      return s.microbatches;
    case ScheduleKind::one_f_one_b:
      return after + 1;
    case ScheduleKind::interleaved:
      return others + 2 * after + 1;
    case ScheduleKind::zb_h1:
      return s.ranks;
    case ScheduleKind::zb_h2:
      return 2 * s.ranks - 1;
    case ScheduleKind::interleaved_zb:
      return others + s.ranks;
    case ScheduleKind::zb_v:
      return 2 * s.ranks;
  }
  return 0;
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
    const auto programs = with_transfers(s);
    std::vector<std::deque<Move>> left;
    std::size_t compute = 0;
    for (const auto& program : programs) left.emplace_back(program.begin(), program.end());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t r = 0; r < left.size(); ++r) {
        if (left[r].empty()) continue;
        const Move move = left[r].front();
        if (move.kind == Move::Kind::receive) continue;  // goes with its send
        if (move.kind == Move::Kind::send) {
          auto& theirs = left[static_cast<std::size_t>(move.peer)];
          if (theirs.empty() || theirs.front().kind != Move::Kind::receive ||
              theirs.front().peer != static_cast<int>(r))
            continue;
          EXPECT_EQ(theirs.front().action, move.action);
          theirs.pop_front();
        } else {
          ++compute;
        }
        left[r].pop_front();
        progress = true;
      }
    }
    std::size_t actions = 0;
    for (const auto& order : s.order) actions += order.size();
    EXPECT_EQ(compute, actions);
    for (const auto& rest : left) EXPECT_TRUE(rest.empty());
  });
}

TEST(Schedule, RefusesWhatDoesNotFit) {
  EXPECT_THROW(make_schedule(ScheduleKind::zb_v, 2, 1, 4), std::invalid_argument);
  EXPECT_THROW(make_schedule(ScheduleKind::one_f_one_b, 2, 2, 4), std::invalid_argument);
  EXPECT_THROW(make_schedule(ScheduleKind::interleaved_zb, 2, 2, 5), std::invalid_argument);
  EXPECT_THROW(make_schedule(ScheduleKind::gpipe, 0, 1, 4), std::invalid_argument);
}

TEST(Validator, FindsWhateverIsBroken) {
  const auto good = make_schedule(ScheduleKind::zb_h1, 3, 1, 4);
  const auto broken = [&](auto change) {
    auto s = good;
    change(s);
    return fault_of(s);
  };
  auto rank_1 = [](PipelineSchedule& s) -> std::vector<Action>& { return s.order[1]; };
  EXPECT_NE(broken([&](auto& s) { rank_1(s).pop_back(); }), "");
  EXPECT_NE(broken([&](auto& s) { rank_1(s).push_back(rank_1(s).front()); }), "");
  EXPECT_NE(broken([&](auto& s) { std::swap(s.order[0], s.order[1]); }), "");
  EXPECT_NE(broken([&](auto& s) { std::ranges::reverse(rank_1(s)); }), "");
  EXPECT_NE(broken([&](auto& s) { rank_1(s)[0].microbatch = 4; }), "");
  EXPECT_NE(broken([&](auto& s) { s.order.pop_back(); }), "");
  EXPECT_NE(broken([&](auto& s) {
              for (auto& a : rank_1(s))
                if (a.pass == Pass::input) a.pass = Pass::backward;
            }),
            "");
  // A weight gradient before its input gradient.
  EXPECT_NE(broken([&](auto& s) {
              auto& order = rank_1(s);
              const auto input = std::ranges::find(order, Action{Pass::input, 1, 0});
              const auto weight = std::ranges::find(order, Action{Pass::weight, 1, 0});
              std::iter_swap(input, weight);
            }),
            "");
}

}  // namespace
}  // namespace tidemark::zero_bubble_detach
