#include "harness/parallel/fault.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace tidemark {
namespace {

struct Plan {
  int rank = 0, nth = 1;
  std::string call = "*", action;
  int seen = 0;
};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw std::invalid_argument(fmt::format(
      "TIDEMARK_FAULT=\"{}\": {} (rank=N call=NAME nth=N do=throw|oom|hang|slow|exit|kill)", text,
      why));
}

std::optional<Plan> read_plan() {
  const char* set = std::getenv("TIDEMARK_FAULT");
  if (set == nullptr || *set == 0) return std::nullopt;
  const std::string text = set;
  std::map<std::string, std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) refuse(text, "'" + word + "' is not NAME=VALUE");
    words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  const auto number = [&](const char* name, int otherwise) {
    if (!words.count(name)) return otherwise;
    char* end = nullptr;
    const long value = std::strtol(words[name].c_str(), &end, 10);
    if (end == words[name].c_str() || *end || value < 0 || value > 1000000)
      refuse(text, std::string(name) + " must be a number");
    return static_cast<int>(value);
  };
  Plan plan{number("rank", 0), number("nth", 1), words.count("call") ? words["call"] : "*",
            words["do"]};
  for (const char* known : {"throw", "oom", "hang", "slow", "exit", "kill"})
    if (plan.action == known) return plan;
  refuse(text, "do must say what happens");
}

}  // namespace

void maybe_fault(int rank, const std::string& call) {
  static std::optional<Plan> plan = read_plan();
  if (!plan || rank != plan->rank || (plan->call != "*" && plan->call != call)) return;
  if (++plan->seen != plan->nth) return;
  const std::string& action = plan->action;
  if (action == "throw")
    throw std::runtime_error(fmt::format("injected fault in {} {}", call, plan->nth));
  if (action == "oom")
    at::empty({std::int64_t{1} << 50}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
  if (action == "hang")
    for (;;) pause();
  if (action == "slow") sleep(2);
  if (action == "exit") _exit(7);
  if (action == "kill") raise(SIGKILL);
}

}  // namespace tidemark
