#include "harness/parallel/fault_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <stdexcept>
#include <string_view>

namespace tidemark {
namespace {

constexpr std::array<std::string_view, 6> kActions{"throw", "oom", "hang", "slow", "exit", "kill"};
constexpr int kMost = 1000000;
constexpr std::size_t kPlans = 1000;

// Text that a message quotes, in one line of a length that a terminal shows.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) out += static_cast<unsigned char>(c) < 32 ? '?' : c;
  return out + (text.size() > 200 ? "..." : "");
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument("TIDEMARK_FAULT=\"" + quoted(text) + "\": " + why +
                              " (rank=N call=NAME nth=N do=throw|oom|hang|slow|exit|kill)");
}

FaultPlan parse_one(const std::string& text, std::string_view all) {
  FaultPlan plan;
  std::set<std::string_view> seen;
  const auto known_call = [&](std::string_view value) {
    const auto& calls = fault_calls();
    if (value == "*" || std::ranges::find(calls, value) != calls.end()) return std::string(value);
    std::string all = "*";
    for (const auto& call : calls) all += ", " + call;
    refuse(text, "there is no call '" + quoted(value) + "' (there are: " + all + ")");
  };
  const auto number = [&](std::string_view name, std::string_view value, int least) {
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < least ||
        result > kMost)
      refuse(text, std::string(name) + " must be a number from " + std::to_string(least) + " to " +
                       std::to_string(kMost));
    return result;
  };
  for (std::size_t begin = 0; (begin = all.find_first_not_of(" \t", begin)) != all.npos;) {
    const auto end = std::min(all.find_first_of(" \t", begin), all.size());
    const auto word = all.substr(begin, end - begin);
    begin = end;
    const auto equals = word.find('=');
    if (equals == word.npos) refuse(text, "'" + quoted(word) + "' is not NAME=VALUE");
    const auto name = word.substr(0, equals), value = word.substr(equals + 1);
    if (!seen.insert(name).second) refuse(text, quoted(name) + " is given twice");
    if (name == "rank")
      plan.rank = number(name, value, 0);
    else if (name == "nth")
      plan.nth = number(name, value, 1);
    else if (name == "call")
      plan.call = known_call(value);
    else if (name == "do")
      plan.action = value;
    else
      refuse(text, "'" + quoted(word) + "' says nothing about a fault");
  }
  for (const auto known : kActions)
    if (plan.action == known) return plan;
  refuse(text, "do must say what happens");
}

}  // namespace

const std::vector<std::string>& fault_calls() {
  static const std::vector<std::string> all{
      "communicator", "all_gather", "reduce_scatter", "all_reduce", "broadcast", "send", "receive"};
  return all;
}

std::string text_of(const FaultPlan& plan) {
  return "rank=" + std::to_string(plan.rank) + " call=" + plan.call +
         " nth=" + std::to_string(plan.nth) + " do=" + plan.action;
}

std::vector<FaultPlan> parse_faults(const std::string& text) {
  std::vector<FaultPlan> plans;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(';', begin), text.size());
    if (plans.size() == kPlans) refuse(text, "more than 1000 faults");
    plans.push_back(parse_one(text, std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return plans;
}

}  // namespace tidemark
