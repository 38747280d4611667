#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "harness/record/units.h"
#include "reports/headline.h"
#include "reports/markup.h"
#include "reports/overview.h"
#include "reports/program/finding.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

struct Suite {
  std::string name, cases;
  int tests = 0, failures = 0, errors = 0, skipped = 0;

  /// `inner` is the element that says why the case did not pass, or empty.
  void add(const std::string& group, const std::string& name_of_case, const std::string& inner) {
    ++tests;
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", markup_text(group),
                         markup_text(name_of_case));
    cases += inner.empty() ? "/>\n" : fmt::format(">\n      {}\n    </testcase>\n", inner);
  }
  void add(const TrialRecord& trial, const std::string& name_of_case, const std::string& inner) {
    add(trial.name(), name_of_case, inner);
  }
  std::string text(const Report& report) const {
    return fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
        "timestamp=\"{}\" "
        "hostname=\"{}\">\n{}  </testsuite>\n",
        markup_text(name), tests, failures, errors, skipped, markup_text(report.run.started),
        markup_text(report.run.host), cases);
  }
};

std::string element(const char* tag, const std::string& message, const std::string& body = "") {
  const std::string head = fmt::format("<{} message=\"{}\"", tag, markup_text(message));
  return body.empty() ? head + "/>" : fmt::format("{}>{}</{}>", head, body, tag);
}

/// The case of an assertion fails where it does on any rank, and is skipped where it is on any and
/// fails on none. One that passed has no case of its own (add_passed).
void add_assertion(const Report& report, const TrialRecord& trial,
                   const std::vector<const Verdict*>& all, Suite& suite) {
  const auto first = [&](Status status) {
    const auto verdict = std::ranges::find(all, status, &Verdict::status);
    return verdict == all.end() ? nullptr : *verdict;
  };
  std::string inner;
  if (const Verdict* failed = first(Status::fail)) {
    ++suite.failures;
    // A verdict on a program names its process itself.
    const auto rank_of = [&](const Verdict& v) {
      return trial.program ? std::string() : fmt::format("rank {}: ", v.rank);
    };
    std::string body;
    for (const Verdict* v : all) {
      if (v->status != Status::fail) continue;
      std::vector<std::string> lines{rank_of(*v) + "expected " + expected_text(*v)};
      if (const std::string formula = formula_text(*v); !formula.empty())
        lines.push_back("formula " + formula);
      lines.push_back("measured " + measured_text(*v));
      for (const std::string& line : lines) body += markup_text(line) + "\n";
    }
    body += markup_text("again: " + command(report, trial)) + "\n";
    inner = element("failure",
                    rank_of(*failed) +
                        (failed->why.empty() ? "measured " + measured_text(*failed) : failed->why),
                    body);
  } else if (const Verdict* skipped = first(Status::skip)) {
    ++suite.skipped;
    inner = element("skipped", skipped->why);
  } else {
    return;
  }
  suite.add(trial,
            (all.front()->variant.empty() ? "" : all.front()->variant + "/") + all.front()->name,
            inner);
}

/// The verdicts of each variant that passed, counted as everywhere, are one case.
void add_passed(const TrialRecord& trial, Suite& suite) {
  std::map<std::string, std::int64_t> passed;
  for (const Verdict& verdict : trial.verdicts)
    if (verdict.status == Status::pass) ++passed[verdict.variant];
  for (const auto& [variant, count] : passed)
    suite.add(trial, (variant.empty() ? "" : variant + "/") + "passed",
              fmt::format("<system-out>{} passed</system-out>", plural(count, "verdict")));
}

// A trial that never began is one error; of one that was cut short each variant that did not run.
void add_unfinished(const TrialRecord& trial, Suite& suite) {
  if (trial.not_run.empty()) return;
  int reported = 0;
  if (course_of(trial) == Course::cut_short)
    for (const VariantRecord& variant : trial.variants) {
      reported += !variant.error.empty();
      if (variant.not_run.empty()) continue;
      ++reported, ++suite.errors;
      suite.add(trial, variant.name, element("error", "not run: " + variant.not_run));
    }
  if (reported > 0) return;
  ++suite.errors;
  suite.add(trial, "trial", element("error", "not run: " + trial.not_run));
}

// A suite of their own: they belong to no trial.
Suite faults_suite(const Report& report) {
  Suite suite{"TIDEMARK_FAULT", {}};
  for (const std::string& fault : report.run.faults) {
    ++suite.failures;
    suite.add("TIDEMARK_FAULT", fault, element("failure", fault));
  }
  return suite;
}

/// The case of a program is that it ended well.
void add_program(const Report& report, const TrialRecord& trial, Suite& suite) {
  const ProgramRecord& program = *trial.program;
  const std::string finding = finding_in(trial, report.run).text;
  std::string inner;
  if (program.exit_code != 0) {
    ++suite.errors;
    const std::string code = fmt::format("the program ended with exit code {}", program.exit_code);
    std::string all;
    for (const std::string& line : program.findings) all += markup_text(line) + "\n";
    inner = element("error", finding, all + code);
  } else if (program.processes.empty()) {
    ++suite.skipped;
    inner = element("skipped", finding);
  } else {
    inner = "<system-out>" + markup_text(finding) + "</system-out>";
  }
  suite.add(trial, fmt::format("{}", fmt::join(program.words, " ")), inner);
}

}  // namespace

std::string junit(const Report& report) {
  std::vector<Suite> suites;
  for (const TrialRecord& trial : report.trials) {
    auto suite = std::ranges::find(suites, trial.scenario, &Suite::name);
    if (suite == suites.end()) suite = suites.insert(suites.end(), Suite{trial.scenario, {}});
    if (!trial.skipped.empty()) {
      ++(report.run.require_all ? suite->failures : suite->skipped);
      suite->add(trial, "trial",
                 element(report.run.require_all ? "failure" : "skipped", trial.skipped));
    }
    add_unfinished(trial, *suite);
    if (trial.program) add_program(report, trial, *suite);
    for (const VariantRecord& variant : trial.variants) {
      if (variant.error.empty()) continue;
      ++suite->errors;
      suite->add(trial, variant.name, element("error", variant.error));
    }
    for (const auto& one : by_assertion(trial)) add_assertion(report, trial, one, *suite);
    add_passed(trial, *suite);
  }
  if (Suite faults = faults_suite(report); faults.tests > 0) suites.push_back(std::move(faults));
  Suite all;
  std::string body;
  for (const Suite& s : suites) {
    all.tests += s.tests, all.failures += s.failures;
    all.errors += s.errors, all.skipped += s.skipped;
    body += s.text(report);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\">\n{}</testsuites>\n",
      markup_text("tidemark: " + counts_text(report)), all.tests, all.failures, all.errors,
      all.skipped, body);
}

}  // namespace tidemark
