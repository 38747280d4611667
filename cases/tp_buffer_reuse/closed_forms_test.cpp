// The forms and the replay against the program itself, at parameters drawn at random: every memory
// verdict of every variant. And against each other, at many more.
#include "cases/tp_buffer_reuse/closed_forms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <set>

#include "harness/device/platform.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario tp_buffer_reuse_scenario();

namespace tp_buffer_reuse {
namespace {

class Draw : public testing::Draw {
 public:
  using testing::Draw::Draw;
  Trial trial(int ranks) {
    const int bf16 = between(0, 1);
    const int kv_heads = ranks * between(1, 3), heads = kv_heads * pick({1, 1, 2, 4});
    const int head = 8 * (bf16 ? between(1, 20) : between(1, 8));
    const int sequence = ranks * between(1, pick({3, 30, 300})) + (ranks == 1 ? 1 : 0);
    const Params params{{"layers", between(1, 4)},
                        {"hidden", heads * head},
                        {"ffn", ranks * between(1, pick({1, 40, 900}))},
                        {"heads", heads},
                        {"kv_heads", kv_heads},
                        {"sequence", sequence},
                        {"microbatch", between(1, 3)},
                        {"in_flight", between(1, 4)},
                        {"precision", bf16}};
    return {"tp_buffer_reuse",
            "random",
            between(0, 1) ? "lagging" : "instant",
            params,
            Mode::shapes,
            ranks,
            between(2, 3),
            0};
  }
};

// How many verdicts passed. None may fail, and every variant that is not a control has a form of
// requested bytes for both ends of each phase.
int hold(World& world, const Trial& trial) {
  const auto scenario = tp_buffer_reuse_scenario();
  EXPECT_EQ(why_unfit(scenario, trial), "") << testing::described(trial);
  const auto record = run_trial(scenario, trial, world, {.details = Details::none});
  EXPECT_EQ(testing::passed_of(record, "memory/form/requested/"), 5 * 6)
      << testing::described(trial);
  int all = 0;
  for (const auto& [name, count] : testing::passed(record, trial)) all += count;
  return all;
}

// One rank at a time, without its partners: any rank of any world.
TEST(ClosedForms, HoldToTheByteOnAnyRankOfEight) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  set_race_detection(false);  // the trials of the sizes look for them
  Draw draw(2);
  int checked = 0;
  for (int i = 0; i < 100 && !::testing::Test::HasFailure(); ++i) {
    const int ranks = draw.pick({1, 2, 3, 4, 5, 8});
    World world(draw.between(0, ranks - 1), ranks);
    checked += hold(world, draw.trial(ranks));
  }
  EXPECT_GT(checked, 100 * 80);
}

// Paper and plan are two derivations, and neither reads the other. Every operator of backward is
// the highest somewhere, so that none is there for nothing.
TEST(ClosedForms, OfRequestedBytesAreThePlansFigures) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto scenario = tp_buffer_reuse_scenario();
  Draw draw(5);
  std::vector<Trial> trials;
  for (int i = 0; i < 150; ++i) trials.push_back(draw.trial(draw.pick({1, 2, 3, 4, 5, 8})));
  // The linear after attention is the highest in a narrow range only: its weight is larger than X,
  // that of queries, keys and values smaller than 2*X, and there are many ranks.
  trials.push_back(draw.trial(8));
  trials.back().params = {{"layers", 1},     {"hidden", 2048}, {"ffn", 8},
                          {"heads", 32},     {"kv_heads", 8},  {"sequence", 952},
                          {"microbatch", 2}, {"in_flight", 1}, {"precision", 0}};
  std::set<std::string> highest;
  for (auto& trial : trials) {
    trial.steps = 2;
    for (const auto& variant : scenario.variants) {
      if (variant.role == Role::control) continue;
      const auto plan = scenario.replay(trial, variant, 0);
      for (const auto& form : scenario.forms(trial, variant, 0)) {
        if (form.statistic != Statistic::requested) continue;
        const auto same = std::ranges::find_if(plan, [&](const Expectation& one) {
          return one.statistic == form.statistic && one.phase == form.phase &&
                 one.at_end == form.at_end;
        });
        EXPECT_EQ(form.formula.evaluate(), same->formula.evaluate())
            << form.phase << " of " << variant.name << ": " << form.formula.text << " ("
            << form.where << "), " << testing::described(trial);
        highest.insert(form.where.substr(0, form.where.find(" of layer")));
      }
    }
  }
  for (const char* where : {"the linear after the GLU", "the GLU", "the linear of gate and up",
                            "the linear after attention", "attention",
                            "the linear of queries, keys and values", "the last attention"}) {
    EXPECT_TRUE(highest.contains(where)) << where << " is never the highest moment";
  }
}

}  // namespace
}  // namespace tp_buffer_reuse
}  // namespace tidemark
