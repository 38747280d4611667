// The command line: any words are options or one line; any --set is taken exactly where it is a
// number in its parameter's range.
#include <charconv>
#include <iterator>
#include <sstream>

#include "harness/cli/commands.h"
#include "harness/cli/options.h"
#include "harness/run/plan.h"
#include "harness/testing/property.h"
#include "harness/testing/toy.h"

namespace tidemark {

std::string version_text() { return "tidemark"; }

namespace {

using testing::accepts;
using testing::damaged;
using testing::for_all;

TEST(CommandLineProperties, RandomWordsAreOptionsOrAnErrorOfOneLine) {
  std::istringstream all(
      "run list report compare losses gpu recording --force history snapshot show convert "
      "--ranks --set --size --suite --mode --schedule --steps --seed --timeout --capacity --gpu "
      "--out --races --details --collectives --as-rank --events --numbers --repetitions --color "
      "--history --dry-run --format --threshold --device -- -x --= = fsdp_prefetch/* layers=2 "
      "layers=, memory=0 5% 1 -1 0x10 1e9 99999999999999999999 on off math nan");
  std::vector<std::string> known{std::istream_iterator<std::string>(all), {}};
  known.emplace_back();
  const auto word = [&] {
    return *rc::gen::weightedOneOf<std::string>(
        {{8, rc::gen::elementOf(known)},
         {1, rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127))},
         {1, damaged("--schedule=instant")}});
  };
  int accepted = 0;
  for_all(4000, [&] {
    std::vector<std::string> words{"tidemark"};
    if (*rc::gen::arbitrary<bool>()) words.emplace_back("run");
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i) words.push_back(word());
    for (const auto& one : words)  // these are answered on stdout
      RC_PRE(!one.starts_with("-h") && !one.starts_with("--h") && !one.starts_with("--v"));
    RC_PRE(words.size() > 1);
    std::vector<char*> argv;
    for (auto& one : words) argv.push_back(one.data());
    argv.push_back(nullptr);
    accepted += accepts<UsageError>([&] {
      int exit_code = -1;
      const Options options = parse_options(static_cast<int>(words.size()), argv.data(), exit_code);
      RC_ASSERT(options.timeout >= 1);
      RC_ASSERT(options.repetitions >= 1);
    });
  });
  EXPECT_GT(accepted, 200);
}

std::vector<PlannedTrial> planned(const Request& request) {
  static const std::vector<Scenario> scenarios{testing::toy_scenario()};
  return plan(request, scenarios, {"instant", "calibrated", "lagging"});
}

TEST(CommandLineProperties, ASettingIsTakenWhereItIsANumberInItsRange) {
  int taken = 0;
  for_all(5000, [&] {
    const auto text =
        *rc::gen::oneOf(rc::gen::map(rc::gen::inRange<std::int64_t>(-5, 40000),
                                     [](std::int64_t n) { return std::to_string(n); }),
                        rc::gen::map(rc::gen::arbitrary<std::int64_t>(),
                                     [](std::int64_t n) { return std::to_string(n); }),
                        damaged("1234"));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool right =
        error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= 32768;
    const bool accepted = accepts<UsageError>([&] {
      const auto trials = planned({.size = "smoke", .set = {"n=" + text}, .ranks = 1});
      RC_ASSERT(trials.at(0).trial["n"] == value);
    });
    taken += accepted;
    RC_ASSERT(accepted == right);
  });
  EXPECT_GT(taken, 500);
}

TEST(CommandLineProperties, RandomRequestsAreAPlanOrAnErrorOfOneLine) {
  for_all(4000, [] {
    const auto any = [](const std::string& usual) {
      return *rc::gen::oneOf(rc::gen::just(usual), rc::gen::just(std::string()), damaged(usual),
                             rc::gen::container<std::string>(rc::gen::arbitrary<char>()));
    };
    Request request;
    request.patterns = {any("toy/in_place/smoke")};
    request.size = any("smoke");
    request.suite = *rc::gen::element<std::string>("smoke", "nightly", "scale", "x");
    request.mode = any("math");
    request.schedule = any("lagging");
    request.set = {any("n=77")};
    request.ranks = *rc::gen::oneOf(rc::gen::inRange(-2, 10), rc::gen::arbitrary<int>());
    request.steps = *rc::gen::oneOf(rc::gen::inRange(-2, 10), rc::gen::arbitrary<int>());
    try {
      accepts<UsageError>([&] {
        for (const auto& each : planned(request)) {
          RC_ASSERT(each.trial.ranks >= 1);
          RC_ASSERT(each.trial.steps >= 2);
          RC_ASSERT(!each.variants.empty());
        }
      });
    } catch (const NothingSelected&) {
    }
  });
}

}  // namespace
}  // namespace tidemark
