#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "harness/record/formula.h"
#include "harness/record/one_line.h"
#include "harness/record/units.h"
#include "harness/virtual/device/text.h"
#include "reports/cause.h"
#include "reports/overview.h"

namespace tidemark {
namespace {

/// A flag that the record of a trial does not hold, as the run was given it: "--x VALUE" or
/// "--x=VALUE".
std::string given(const std::vector<std::string>& argv, const std::string& flag) {
  for (std::size_t i = 0; i < argv.size(); ++i) {
    if (argv[i] == flag && i + 1 < argv.size()) return " " + flag + " " + shell_word(argv[i + 1]);
    if (argv[i].starts_with(flag + "=")) return " " + shell_word(argv[i]);
  }
  return "";
}

std::string in_unit(double value, const std::string& unit) {
  return exact(value) + (unit.empty() ? "" : " ") + one_line(unit);
}

/// "3*U = 12": the summands of its formula; none where that is words.
std::vector<std::string> terms_of(const Verdict& v) {
  std::vector<std::string> out;
  try {
    for (const auto& [term, value] : Formula{v.formula, v.values}.terms())
      out.push_back(fmt::format("{} = {}", one_line(term), exact(value)));
  } catch (const std::invalid_argument&) {
    out.clear();
  }
  return out;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  const bool run =
      std::ranges::adjacent_find(ranks, [](int a, int b) { return b != a + 1; }) == ranks.end();
  if (run) return fmt::format("ranks {}-{}", ranks.front(), ranks.back());
  return fmt::format("ranks {}", fmt::join(ranks, ", "));
}

GroupOutcome outcome_of(const std::vector<const Overview*>& groups) {
  int passed = 0, failed = 0, errors = 0, full = 0, all = 0, left = 0, lost = 0;
  for (const Overview* group : groups) {
    for (const OverviewRow& row : group->rows)
      for (std::size_t i = 0; i < row.cells.size(); ++i) {
        const Cell& cell = row.cells[i];
        passed += cell.passed;
        // What has no memory to run is not judged.
        const VariantRecord* variant = variant_in(*group->trials[i], row.variant);
        const bool no_room = variant != nullptr && ran_out_of_memory(*variant);
        full += no_room;
        if (!no_room) failed += cell.failed, errors += !cell.error.empty();
      }
    for (const TrialRecord* trial : group->trials) {
      ++all;
      left += !trial->skipped.empty();
      lost += !trial->not_run.empty();
    }
  }
  const std::string trials = plural(all, "trial");
  std::vector<std::string> parts;
  if (lost > 0) parts.push_back(fmt::format("{} of {} did not finish", lost, trials));
  if (full > 0) parts.push_back(plural(full, "variant") + " ran out of memory");
  if (errors > 0) parts.push_back(plural(errors, "variant") + " ended in error");
  if (failed > 0)
    parts.push_back(
        fmt::format("{} of {} failed", exact(failed), plural(passed + failed, "verdict")));
  if (failed == 0 && passed > 0) parts.push_back(plural(passed, "verdict") + " passed");
  if (left > 0) parts.push_back(fmt::format("{} of {} skipped", left, trials));
  if (passed + failed + full + lost + left == 0) parts.push_back("nothing judged");
  return {failed + errors + full + lost > 0 ? Status::fail
          : passed > 0                      ? Status::pass
                                            : Status::skip,
          fmt::format("{}", fmt::join(parts, ", "))};
}

std::string expected_text(const Verdict& v) {
  if (v.low && v.high && *v.low == *v.high) return in_unit(*v.low, v.unit);
  if (v.low && v.high)
    return fmt::format("between {} and {}", exact(*v.low), in_unit(*v.high, v.unit));
  if (v.low) return "at least " + in_unit(*v.low, v.unit);
  if (v.high) return "at most " + in_unit(*v.high, v.unit);
  return "";
}

std::string expected_size(const Verdict& v) {
  if (v.unit != "bytes" || (v.low && v.high && *v.low != *v.high)) return expected_text(v);
  const auto size = [](double bytes) { return bytes_text(static_cast<Bytes>(bytes)); };
  if (v.low && v.high) return size(*v.low);
  return v.low ? "at least " + size(*v.low) : v.high ? "at most " + size(*v.high) : "";
}

std::string measured_size(const Verdict& v) {
  if (v.unit != "bytes" || !v.measured) return measured_text(v);
  const auto size = [](double bytes) { return bytes_text(static_cast<Bytes>(bytes)); };
  std::string out = size(*v.measured);
  if (v.high && *v.measured > *v.high)
    out += fmt::format(" ({} more)", size(*v.measured - *v.high));
  if (v.low && *v.measured < *v.low) out += fmt::format(" ({} less)", size(*v.low - *v.measured));
  return out;
}

std::string sized_cell(const std::string& exact, const std::string& size) {
  return size == exact ? exact : size + "\t" + exact;
}

std::string formula_text(const Verdict& v) {
  std::string out = one_line(v.formula);
  const char* before = out.empty() ? "" : " with ";
  for (const auto& [name, value] : v.values) {
    out += fmt::format("{}{} = {}", before, one_line(name), exact(value));
    before = ", ";
  }
  return out;
}

std::string measured_text(const Verdict& v) {
  if (!v.measured) return "no value";
  std::string out = in_unit(*v.measured, v.unit);
  double difference = 0;
  if (v.high && *v.measured > *v.high) difference = *v.measured - *v.high;
  if (v.low && *v.measured < *v.low) difference = *v.measured - *v.low;
  if (difference != 0) out += fmt::format(" ({}{})", difference > 0 ? "+" : "", exact(difference));
  return out;
}

std::vector<std::string> failure_lines(const Verdict& v) {
  const std::string expected = expected_text(v), formula = formula_text(v);
  std::vector<std::string> out;
  if (!(expected + formula).empty())
    out.push_back(fmt::format("expected {}{}{}", expected,
                              expected.empty() || formula.empty() ? "" : " = ", formula));
  if (const auto terms = terms_of(v); terms.size() > 1)
    out.push_back(fmt::format("terms    {}", fmt::join(terms, ", ")));
  if (v.measured || v.low || v.high) out.push_back("measured " + measured_text(v));
  TextIn why(v.why);
  for (std::string line; std::getline(why, line);) out.push_back(one_line(line));
  return out;
}

std::string words_of(const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  for (const std::string& word : argv) words.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string command(const Report& report, const TrialRecord& trial) {
  const RunRecord& run = report.run;
  const std::string program = run.argv.empty() ? "" : run.argv.front();
  if (trial.program) return words_of(run.argv);
  if (program == "pytest") return "pytest " + shell_word(trial.scenario);
  if (program == "ci/upstream" && trial.scenario.starts_with("test/"))  // a file of --suite
    return "ci/upstream --suite CHECKOUT --files " + shell_word(trial.scenario);
  if (program == "ci/upstream")  // cases/upstream_report.py names the trials
    return fmt::format("ci/upstream {} --rows {}",
                       trial.scenario.substr(0, trial.scenario.find(' ')), shell_word(trial.size));
  std::string out;
  for (const auto& [name, value] : run.env) {
    if (!name.starts_with("TIDEMARK_"))
      out += fmt::format("{}={} ", shell_word(name), shell_word(value));
  }
  out += fmt::format(
      "tidemark run {} --size {} --mode {} --schedule {} --ranks {} --steps {} --seed {}",
      shell_word(trial.scenario), shell_word(trial.size), name_of(trial.mode),
      shell_word(trial.schedule), trial.ranks, trial.steps, trial.seed);
  for (const auto& [name, value] : trial.params)
    out += " --set " + shell_word(fmt::format("{}={}", name, setting_text(value)));
  if (!run.device_kind.empty()) out += " --device " + shell_word(run.device_kind);
  for (const auto& [flag, variable] : {std::pair{"--gpu", "TIDEMARK_GPU"},
                                       {"--capacity", "TIDEMARK_CAPACITY"},
                                       {"--alloc-conf", "TIDEMARK_ALLOC_CONF"},
                                       {"--collectives", "TIDEMARK_COLLECTIVES"},
                                       {"--as-rank", "TIDEMARK_AS_RANK"}}) {
    const std::string by_flag = given(run.argv, flag);
    const auto twin = run.env.find(variable);
    if (!by_flag.empty()) {
      out += by_flag;
    } else if (twin != run.env.end()) {
      out += fmt::format(" {} {}", flag, shell_word(twin->second));
    }
  }
  return out;
}

}  // namespace tidemark
