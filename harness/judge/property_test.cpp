// Formulas, bounds and the plan of a fault, over thousands of random ones.
#include "harness/testing/property.h"

#include <cmath>
#include <cstdint>

#include "harness/parallel/fault_plan.h"
#include "harness/record/formula.h"
#include "harness/record/reduced.h"

namespace tidemark {
namespace {

using testing::accepts;
using testing::damaged;
using testing::for_all;

constexpr std::int64_t kExact = std::int64_t{1} << 53;

struct Tree {  // of a formula: its text, and what it is worth in whole numbers
  std::string text;
  std::int64_t value;
};

Tree any_tree(int depth, const std::map<std::string, double>& names) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 8 : 2);
  const auto part = [&] { return any_tree(depth - 1, names); };
  if (kind == 0) {
    const auto number = *rc::gen::inRange<std::int64_t>(0, 100000);
    return {std::to_string(number), number};
  }
  if (kind == 1) {
    const auto& [name, value] = *rc::gen::elementOf(names);
    return {name, static_cast<std::int64_t>(value)};
  }
  const Tree a = part(), b = part();
  switch (kind) {
    case 2:
      return {"(" + a.text + " + " + b.text + ")", a.value + b.value};
    case 3:
      return {"(" + a.text + " - " + b.text + ")", a.value - b.value};
    case 4:
      if (std::abs(a.value) < 100000 && std::abs(b.value) < 100000)
        return {"(" + a.text + ") * (" + b.text + ")", a.value * b.value};
      return a;
    case 5:
      return {"max(" + a.text + ", " + b.text + ")", std::max(a.value, b.value)};
    case 6:
      return {"(" + a.text + " > " + b.text + " ? " + a.text + " : 7)",
              a.value > b.value ? a.value : 7};
    default:
      if (a.value < 0) return b;
      return {"block(" + a.text + ")", (a.value + 511) / 512 * 512};
  }
}

TEST(FormulaProperties, ATextEvaluatesToItsFigure) {
  for_all(5000, [] {
    std::map<std::string, double> names;
    for (const char* name : {"P", "U", "layers", "W_2"})
      names[name] = static_cast<double>(*rc::gen::inRange<std::int64_t>(0, 1 << 30));
    const Tree tree = any_tree(4, names);
    RC_LOG() << tree.text;
    const Formula formula{tree.text, names}, none{tree.text + " - (" + tree.text + ")", names};
    RC_ASSERT(formula.evaluate() == static_cast<double>(tree.value));
    RC_ASSERT(reduced(formula).evaluate() == formula.evaluate());
    RC_ASSERT(reduced(formula).text.size() <= formula.text.size());
    RC_ASSERT(reduced(none).text == "0");
  });
}

TEST(FormulaProperties, RoundingIsThatOfWholeNumbers) {
  for_all(5000, [] {
    const auto bytes = *rc::gen::inRange<std::int64_t>(0, kExact - (std::int64_t{1} << 31));
    const auto granule = *rc::gen::inRange<std::int64_t>(1, 1 << 30);
    const auto near = *rc::gen::inRange<std::int64_t>(-1, 2);  // about a boundary
    for (const auto n : {bytes, std::max<std::int64_t>(0, bytes / 512 * 512 + near)}) {
      const Formula block{"block(n)", {{"n", static_cast<double>(n)}}};
      RC_ASSERT(block.evaluate() == static_cast<double>((n + 511) / 512 * 512));
    }
    for (const auto n : {bytes, std::max<std::int64_t>(0, bytes / granule * granule + near)}) {
      const Formula up{"roundup(n, g)",
                       {{"n", static_cast<double>(n)}, {"g", static_cast<double>(granule)}}};
      RC_ASSERT(up.evaluate() == static_cast<double>((n + granule - 1) / granule * granule));
    }
  });
}

TEST(FormulaProperties, RandomTextsAreANumberOrAnErrorOfOneLine) {
  const auto check = [](const std::string& text) {
    accepts<std::invalid_argument>([&] {
      RC_ASSERT(std::isfinite(Formula{text, {{"P", 3}, {"U", 0}}}.evaluate()));
    });
  };
  for_all(5000, [&] { check(*damaged("block(P * U) + max(1, P) ^ 2 if P > 2 else ceil(P / 7)")); });
  for_all(3000, [&] { check(*rc::gen::container<std::string>(rc::gen::arbitrary<char>())); });
}

TEST(FaultProperties, APlanIsReadAsItIsWritten) {
  for_all(3000, [] {
    FaultPlan plan;
    plan.rank = *rc::gen::inRange(0, 1000001);
    plan.nth = *rc::gen::inRange(1, 1000001);
    plan.call = *rc::gen::element<std::string>("*", "all_gather", "send", "communicator");
    plan.action = *rc::gen::element<std::string>("throw", "oom", "hang", "slow", "exit", "kill");
    std::vector<std::string> words{"rank=" + std::to_string(plan.rank),
                                   "nth=" + std::to_string(plan.nth), "call=" + plan.call,
                                   "do=" + plan.action};
    for (std::size_t i = words.size(); i > 1; --i)
      std::swap(words[i - 1], words[*rc::gen::inRange<std::size_t>(0, i)]);
    std::string text;
    for (const auto& word : words)
      text += word + std::string(*rc::gen::inRange<std::size_t>(1, 3), ' ');
    const int copies = *rc::gen::inRange(1, 4);
    std::string all = text;
    for (int i = 1; i < copies; ++i) all += ";" + text;
    const auto plans = parse_faults(all);
    RC_ASSERT(plans.size() == static_cast<std::size_t>(copies));
    const FaultPlan& read = plans.back();
    RC_ASSERT(read.rank == plan.rank);
    RC_ASSERT(read.nth == plan.nth);
    RC_ASSERT(read.call == plan.call);
    RC_ASSERT(read.action == plan.action);
  });
}

TEST(FaultProperties, AnythingElseIsAnErrorOfOneLine) {
  int refused = 0;
  for_all(5000, [&] {
    const auto text = *damaged("rank=2 call=all_gather nth=7 do=throw");
    refused += !accepts<std::invalid_argument>([&] {
      for (const FaultPlan& plan : parse_faults(text)) {
        RC_ASSERT(plan.rank >= 0);
        RC_ASSERT(plan.nth >= 1);
      }
    });
  });
  EXPECT_GT(refused, 3000);
  for (const char* wrong :
       {"", "do=", "do=nosuch", "rank=1", "do=kill do=kill", "nth=0 do=kill", "rank=-1 do=kill",
        "rnk=1 do=kill", "do=kill rank", "do=kill;", ";do=kill", "do=kill call="})
    EXPECT_THROW(parse_faults(wrong), std::invalid_argument) << wrong;
}

}  // namespace
}  // namespace tidemark
