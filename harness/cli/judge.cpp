// tidemark judge: claims of tests in Python become verdicts, by the code that judges scenarios.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/cli/files.h"
#include "harness/print.h"
#include "harness/record/formula.h"
#include "harness/record/json.h"
#include "harness/record/json_reader.h"
#include "harness/record/one_line.h"
#include "reports/overview.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

struct Claim {
  Verdict verdict;
  bool open = false;  // not judged yet: its status is null
};

Claim claim_of(const Node& node) {
  Claim claim;
  const auto status = node.value().find("status");
  claim.open = status && status->is_null();
  Json json = Json::parse(node.value().source());
  if (claim.open) json["status"] = name_of(Status::skip);
  const std::string text = json.dump();
  const JsonDocument made(text);
  JsonReader::read(Node(made.root(), "claim"), claim.verdict);
  claim.verdict.rank = node["rank"].small_integer();
  return claim;
}

double value_of(const Formula& formula) {
  try {
    return formula.evaluate();
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(error.what());
  }
}

/// Both bounds from the formula, and the status from bounds and measurement. A claim without a
/// measurement asks for the bounds alone.
void judge(Verdict& verdict) {
  if (!verdict.formula.empty()) {
    const double value = value_of({verdict.formula, verdict.values});
    if (value != std::floor(value))
      throw std::runtime_error(
          fmt::format("formula '{}' is {}, which is not a whole number: use floor, ceil or block",
                      verdict.formula, value));
    verdict.low = verdict.high = value;
  }
  if (!verdict.low && !verdict.high)
    throw std::runtime_error(
        fmt::format("the claim {} has neither a formula nor a bound", one_line(verdict.name)));
  if (!verdict.measured) return;
  const bool holds = (!verdict.low || *verdict.measured >= *verdict.low) &&
                     (!verdict.high || *verdict.measured <= *verdict.high);
  verdict.status = holds ? Status::pass : Status::fail;
  if (holds) verdict.why.clear();
}

Json number(const std::optional<double>& value) {
  if (!value) return {};
  const bool fits = std::abs(*value) < 0x1p63;
  return fits ? Json(static_cast<std::int64_t>(*value)) : Json(*value);
}

/// A paragraph for each failure; ranks on which it is the same are together.
std::string text_of_failures(const std::vector<Claim>& claims) {
  struct Paragraph {
    std::string name, lines;
    std::vector<int> ranks;
  };
  std::vector<Paragraph> all;
  for (const auto& [verdict, open] : claims) {
    if (verdict.status != Status::fail) continue;
    Paragraph made{verdict.name + (verdict.variant.empty() ? "" : " ") + verdict.variant, "", {}};
    for (const std::string& line : failure_lines(verdict)) made.lines += "\n     " + line;
    auto same = std::ranges::find_if(all, [&](const Paragraph& one) {
      return one.name == made.name && one.lines == made.lines;
    });
    if (same == all.end()) same = all.insert(same, made);
    same->ranks.push_back(verdict.rank);
  }
  std::vector<std::string> texts;
  for (Paragraph& one : all) {
    std::ranges::sort(one.ranks);
    texts.push_back(fmt::format("FAIL {}: {}{}", one.name, ranks_text(one.ranks), one.lines));
  }
  return fmt::format("{}", fmt::join(texts, "\n"));
}

int judge_claims() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const auto json = json_of_others(text, "the claims");
  if (!json) throw std::runtime_error("the claims are not JSON: give a list of verdicts on stdin");
  std::vector<Claim> claims = list<Claim>(Node(json->root(), "claims"), claim_of);
  Json out = {{"verdicts", Json::array()}};
  for (Claim& claim : claims) {
    Verdict& verdict = claim.verdict;
    if (claim.open) judge(verdict);
    out["verdicts"].push_back({{"status", name_of(verdict.status)},
                               {"low", number(verdict.low)},
                               {"high", number(verdict.high)},
                               {"why", verdict.why}});
  }
  out["text"] = text_of_failures(claims);
  print(stdout, "{}\n", line_of(out));
  return 0;
}

}  // namespace

void add_judge(CLI::App& app, Act& act) {
  auto* command = app.add_subcommand(
      "judge", "judge claims on stdin: verdicts as in report.json, of which a status may be null");
  command->footer(
      "Prints {\"verdicts\": [{status, low, high, why}], \"text\": of those that failed}.\n"
      "exit codes: 0 judged, 2 a claim that cannot be judged: its formula is none, or not whole");
  command->callback([&act] { act = judge_claims; });
}

}  // namespace tidemark
