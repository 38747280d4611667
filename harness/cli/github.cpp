#include "harness/cli/github.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>

#include "harness/print.h"
#include "harness/record/scan.h"
#include "harness/record/units.h"
#include "harness/record/write.h"
#include "reports/cause.h"
#include "reports/compare/render.h"
#include "reports/overview.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

constexpr std::size_t kShown = 10;           // GitHub shows no more of a step
constexpr std::size_t kSummary = 1'000'000;  // bytes; GitHub refuses a MiB

// "alive/activations, layers.*, forward train.py:61" of a program that holds more.
std::optional<Annotation> line_that_grew(const Change& change) {
  if (change.after.value_or(0) <= change.before.value_or(0) || !change.metric.starts_with("alive/"))
    return std::nullopt;
  Annotation out = annotation_at(change.metric, "holds more memory", sentence(change));
  return out.file.empty() ? std::nullopt : std::optional(std::move(out));
}

void add_summary(std::string markdown) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') return;
  if (markdown.size() > kSummary) {
    markdown.resize(markdown.rfind('\n', kSummary) + 1);
    markdown += "\n(cut: the report has it all)\n";
  }
  if (!append_bytes(path, markdown + "\n"))
    print(stderr, "warning: GITHUB_STEP_SUMMARY={}: cannot be written\n", one_line(path));
}

}  // namespace

void tell_github(const std::vector<Annotation>& annotations, const std::string& markdown) {
  if (!in_ci()) return;
  for (std::size_t i = 0; i < annotations.size() && i < kShown; ++i) {
    const std::size_t rest = annotations.size() - kShown + 1;
    const bool last = i + 1 == kShown && annotations.size() > kShown;
    print(stdout, "{}",
          annotation_line(last ? Annotation{"tidemark", fmt::format("and {} more", rest)}
                               : annotations[i]));
  }
  std::fflush(stdout);
  add_summary(markdown);
}

void tell_github(const Report& report) {
  if (!in_ci()) return;
  std::vector<Annotation> all;
  for (const Breakdown& one : breakdowns(report))
    all.push_back({fmt::format("{}/{} {} ended early", one.trial->scenario, one.trial->size,
                               fmt::join(one.variants, ", ")),
                   fmt::format("under {}: {}", fmt::join(one.schedules, ", "), one.brief)});
  for (const FailureGroup& group : failure_groups(report)) {
    const Failure& failure = group.failures.front();
    const Verdict& v = *failure.verdict;
    const std::string expected = expected_text(v), why = group.why.empty() ? v.why : group.why;
    const std::int64_t more = count_of(std::span(group.failures).subspan(1));
    all.push_back(
        {v.name + " failed",
         fmt::format("{} {} {}: {}measured {}{}{}", failure.trial->name(), v.variant,
                     ranks_text(failure.ranks),
                     expected.empty() ? "" : "expected " + expected + ", ", measured_text(v),
                     why.empty() ? "" : "; " + why,
                     more == 0 ? "" : fmt::format("; and {} more of {}", exact(more), v.variant))});
  }
  tell_github(all, markdown(report));
}

void tell_github(const Comparison& comparison, const std::string& markdown) {
  if (!in_ci()) return;
  std::vector<Annotation> all;
  for (const VerdictChange& turn : comparison.turns)
    if (turn.effect == Effect::regression)
      all.push_back({turn.name + " regressed", sentence(turn)});
  for (const Change& change : comparison.changes)
    if (change.effect == Effect::regression)
      all.push_back({change.metric + " regressed", sentence(change)});
  if (!all.empty())
    for (const Change& change : comparison.changes)
      if (auto one = line_that_grew(change)) all.push_back(std::move(*one));
  if (!comparison.allow_missing)
    for (const std::string& what : comparison.missing) all.push_back({"missing in NEW", what});
  tell_github(all, markdown);
}

}  // namespace tidemark
