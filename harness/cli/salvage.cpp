#include "harness/cli/salvage.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "harness/ranks/flight_recorder.h"
#include "harness/record/file.h"
#include "harness/record/json.h"
#include "harness/run/gather.h"
#include "harness/run/runner.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlan = "plan";
constexpr const char* kAt = "at";  // the trial under way, and how many ranks run

std::string name_of_trial(std::size_t index) { return fmt::format("trial-{}", index); }

std::string name_of_part(std::size_t trial, const std::string& variant, int rank) {
  return fmt::format("part-{}-{}-{}", trial, path_component(variant), rank);
}

void replace(const fs::path& path, const std::string& text) {
  const fs::path fresh = path.string() + ".new";  // a rank may be killed while it writes
  std::ofstream(fresh, std::ios::binary) << text;
  std::error_code ignored;
  fs::rename(fresh, path, ignored);
}

std::optional<Report> read(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  return parse_report(read_bytes(path), path.string());
}

// A variant that has ended on all ranks; none where the part of one of them is missing.
std::optional<VariantRecord> whole(const fs::path& session, std::size_t trial,
                                   const std::string& variant, const std::vector<int>& ranks) {
  std::optional<TrialRecord> all;
  for (const int rank : ranks) {
    auto part = read(session / name_of_part(trial, variant, rank));
    if (!part) return std::nullopt;
    if (all)
      join(*all, std::move(part->trials.at(0)));
    else
      all = std::move(part->trials.at(0));
  }
  std::erase_if(all->variants.at(0).growth, [](const Growth& one) { return one.points.empty(); });
  return all->variants.at(0);
}

// Fills in the variants of the trial under way that had ended. Returns the place of the first that
// had not; their number where all had.
std::size_t gather_parts(const fs::path& session, const RunRecord& run, std::size_t index,
                         const std::vector<int>& ranks, TrialRecord& trial) {
  for (std::size_t v = 0; v < trial.variants.size(); ++v) {
    auto ended = whole(session, index, trial.variants[v].name, ranks);
    if (!ended) return v;
    trial.variants[v] = std::move(*ended);
    trial.variants[v].fit = fit_of(run, trial.variants[v]);
  }
  return trial.variants.size();
}

}  // namespace

TrialRecord record_of(const PlannedTrial& planned) {
  TrialRecord record = record_of(*planned.scenario, planned.trial);
  record.skipped = planned.unfit;
  record.capacity = planned.capacity;
  record.needs = planned.needs;
  if (!planned.unfit.empty()) return record;
  record.not_run = "the run ended before it";
  for (const auto& variant : planned.scenario->variants) {
    if (std::ranges::find(planned.variants, variant.name) == planned.variants.end()) continue;
    VariantRecord one;
    one.name = variant.name;
    one.role = variant.role;
    one.what = variant.what;
    one.not_run = record.not_run;
    record.variants.push_back(std::move(one));
  }
  return record;
}

Checkpoint::Checkpoint(fs::path session, const World& world)
    : session_(std::move(session)), world_(world) {}

void Checkpoint::write(const Report& report, const std::string& name) const {
  if (!session_.empty()) replace(session_ / name, json_text(report));
}

void Checkpoint::plan(const Report& all) const { write(all, kPlan); }

void Checkpoint::begin(std::size_t trial) {
  trial_ = trial;
  if (!world_.leads() || session_.empty()) return;
  const auto [first, count] =
      world_.alone() ? std::pair(world_.rank(), 1) : std::pair(0, world_.size());
  replace(session_ / kAt, fmt::format("{} {} {}\n", trial, first, count));
}

void Checkpoint::add(const VariantRecord& variant) const {
  TrialRecord part;
  part.variants.push_back(variant);
  write({{}, {part}}, name_of_part(trial_, variant.name, world_.rank()));
}

void Checkpoint::end(const TrialRecord& trial) const {
  if (session_.empty()) return;
  write({{}, {trial}}, name_of_trial(trial_));
  std::error_code ignored;
  for (const auto& variant : trial.variants)
    for (int rank = 0; rank < trial.ranks; ++rank)
      fs::remove(session_ / name_of_part(trial_, variant.name, rank), ignored);
}

std::optional<Report> salvage(const fs::path& session, const Ending& ending) {
  auto report = read(session / kPlan);
  if (!report) return std::nullopt;
  report->run.interrupted = ending.interrupted;
  std::size_t under_way = report->trials.size();
  int first = 0, count = 0;
  std::ifstream(session / kAt) >> under_way >> first >> count;
  std::vector<int> ranks(static_cast<std::size_t>(std::clamp(count, 1, 1024)));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = first + static_cast<int>(i);
  std::string where = "before the first trial";
  for (std::size_t i = 0; i < report->trials.size(); ++i) {
    TrialRecord& trial = report->trials[i];
    if (auto whole = read(session / name_of_trial(i))) {
      trial = std::move(whole->trials.at(0));
      where = "after " + trial.name();
    } else if (i == under_way && !trial.variants.empty()) {
      const std::size_t at = gather_parts(session, report->run, i, ranks, trial);
      where = at == trial.variants.size()
                  ? "while " + trial.name() + " was judged"
                  : fmt::format("in {}/{}", trial.scenario, trial.variants[at].name);
      trial.not_run = "cut short";
      if (at == trial.variants.size()) continue;
      trial.variants[at].not_run.clear();
      trial.variants[at].error =
          fmt::format("the ranks ended early ({}): {}", ending.why, flight::read(session));
    }
  }
  report->run.ended = fmt::format("{} {}", ending.brief(), where);
  for (TrialRecord& trial : report->trials) {
    if (trial.not_run.empty()) continue;
    const bool cut = course_of(trial) == Course::cut_short;
    trial.not_run =
        fmt::format("the run ended {} it: {}", cut ? "in" : "before", report->run.ended);
    for (VariantRecord& variant : trial.variants)
      if (!variant.not_run.empty())
        variant.not_run = "the run ended before it: " + report->run.ended;
  }
  return report;
}

}  // namespace tidemark
