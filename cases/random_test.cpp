// Every verdict of every variant of a scenario at parameters drawn at random: memory on any rank by
// itself, numbers and controls among partners; and forms against replays on paper.
#include "cases/random_test.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "harness/device/platform.h"
#include "harness/run/gather.h"
#include "harness/testing/ranks.h"

namespace tidemark {
namespace {

// The numbers of all trials that came nearest to their tolerance: one for each thing compared.
class Nearest {
 public:
  void look(const TrialRecord& record, const Trial& trial) {
    for (const Verdict& verdict : record.verdicts) {
      if (!verdict.name.starts_with("parity/reference/") || !verdict.measured || !verdict.high ||
          *verdict.high <= 0)
        continue;
      Place& place = places_[verdict.name];
      ++place.compared;
      const double part = *verdict.measured / *verdict.high;
      if (part >= place.part)
        place = {place.compared, part, *verdict.measured, *verdict.high,
                 testing::described(trial) + " " + verdict.variant};
    }
  }
  void print(const char* scenario) const {
    for (const auto& [name, place] : places_)
      std::printf("%s | %s | %d compared | %.2g of %.2g (%.2f) | %s\n", scenario,
                  name.substr(std::string("parity/reference/").size()).c_str(), place.compared,
                  place.measured, place.allowed, place.part, place.where.c_str());
  }

 private:
  struct Place {
    int compared = 0;
    double part = 0, measured = 0, allowed = 0;
    std::string where;
  };
  std::map<std::string, Place> places_;
};

class Random : public ::testing::Test {
 protected:
  Random()
      : settings_(testing::random_trials()),
        scenario_(*std::ranges::find(scenarios(), settings_.scenario, &Scenario::name)),
        draw_(settings_.seed) {
    at::globalContext().lazyInitDevice(at::kCUDA);
  }

  Trial drawn(int ranks, Mode mode) {
    Trial trial{scenario_.name, "random", "", {}, mode, ranks, 2, 0};
    for (int i = 0; i < 100; ++i) {
      const int schedule = draw_.between(0, 4);
      trial.schedule = schedule < 2 ? "lagging" : schedule < 4 ? "instant" : "calibrated";
      trial.steps = draw_.between(2, settings_.most_steps);
      trial.params = settings_.params(draw_, trial);
      if (why_unfit(scenario_, trial).empty()) return testing::by_day(scenario_, trial);
    }
    ADD_FAILURE() << "100 draws in a row do not fit: " << why_unfit(scenario_, trial);
    return trial;
  }

  /// `next` hands a trial and the world that it runs on to what it is given. The ranks of
  /// `everyone` stop together, and the first of them holds the verdicts of all.
  template <class Next>
  void hold(const testing::RandomTrials::Part& part, const World& everyone, Next&& next) {
    const char* const seconds = std::getenv("TIDEMARK_TEST_SECONDS");  // in place of a number
    const int trials = seconds != nullptr ? INT_MAX : testing::seeds(part.trials);
    const auto begin = std::chrono::steady_clock::now();
    const auto stops = [&] {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      return HasFailure() || (seconds != nullptr && spent.count() > std::atof(seconds));
    };
    RunOptions options{.details = Details::none};
    if (!part.controls) options.selected = [](const Variant& v) { return v.role != Role::control; };
    std::map<std::string, std::ptrdiff_t> passed;
    Nearest nearest;
    int ran = 0;
    for (int i = 0; i < trials && everyone.worst(stops()) == 0; ++i)
      next([&](const Trial& trial, World& world) {
        if (!testing::drawn(i)) return;
        ++ran;
        set_race_detection(part.races > 0 && i % part.races == 0);
        const auto record = gather(run_trial(scenario_, trial, world, options), world);
        if (world.leads()) testing::passed(record, trial), nearest.look(record, trial);
        for (const auto& [name, count] : part.at_least)
          passed[name] += testing::passed_of(record, name);
      });
    if (everyone.leads()) nearest.print(settings_.scenario);
    for (const auto& [name, count] : part.at_least) {
      if (!everyone.leads()) break;
      std::printf("%s: %td verdicts %s of %d trials\n", settings_.scenario, passed[name],
                  name.c_str(), ran);
      const bool merged = name == "control";  // one verdict of all ranks
      if (testing::whole())                   // the mean of a part is another one
        EXPECT_GE(static_cast<double>(passed[name]), ran * count * (merged ? 1 : everyone.size()))
            << name;
    }
  }

  const testing::RandomTrials settings_;
  const Scenario& scenario_;
  testing::Draw draw_;
};

TEST_F(Random, EveryVerdictHoldsOnAnyRankByItself) {
  const World& world = testing::world();
  if (world.size() > 1) GTEST_SKIP() << "for one process";
  hold(settings_.alone, world, [this](const auto& run) {
    const int ranks = draw_.between(1, settings_.most_ranks);
    const Trial trial = drawn(ranks, settings_.alone.mode);
    World one(draw_.between(0, ranks - 1), ranks);
    run(trial, one);
  });
}

TEST_F(Random, EveryVerdictHoldsAmongPartners) {
  World& world = testing::world();
  if (world.size() < settings_.processes || settings_.together.trials == 0)
    GTEST_SKIP() << "for " << settings_.processes << " processes";
  hold(settings_.together, world,
       [&](const auto& run) { run(drawn(world.size(), settings_.together.mode), world); });
}

// Paper and plan are two derivations, and neither reads the other. No moment of a form is there for
// nothing.
TEST_F(Random, EveryMomentIsTheHighestSomewhere) {
  if (settings_.highest.empty()) GTEST_SKIP() << "no moments are named";
  auto trials = settings_.besides;
  for (int i = 0; i < settings_.on_paper; ++i)
    trials.push_back(drawn(draw_.between(1, settings_.most_ranks), Mode::shapes));
  if (!testing::whole())
    std::erase_if(trials, [i = 0](const Trial&) mutable { return !testing::drawn(i++); });
  std::set<std::string> missing(settings_.highest.begin(), settings_.highest.end());
  for (const Trial& trial : trials)
    for (const auto& variant : scenario_.variants) {
      if (variant.role == Role::control) continue;
      testing::compare_on_paper(scenario_, trial, variant, 0);
      for (const auto& form : scenario_.forms(trial, variant, 0))
        if (form.statistic == Statistic::requested)
          std::erase_if(missing, [&](const auto& name) { return form.where.starts_with(name); });
    }
  if (!testing::whole()) return;
  EXPECT_TRUE(missing.empty()) << *missing.begin() << " is never the highest moment";
}

}  // namespace
}  // namespace tidemark
