#include "harness/cli/salvage.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "harness/cli/session_files.h"
#include "harness/ranks/flight_record.h"
#include "harness/record/file.h"
#include "harness/record/join.h"
#include "harness/record/json.h"
#include "harness/record/lock.h"
#include "harness/record/one_line.h"
#include "harness/record/write.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

// A process that was killed a moment ago holds its lock until the kernel has freed its memory.
bool stays_locked(const fs::path& path) {
  for (int tries = 0; is_locked(path); ++tries) {
    if (tries == 30) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

std::optional<Report> read(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  return parse_report(read_bytes(path), path.string());
}

// The one trial of a file of the session, with `variants` of them (-1: as many as it has).
TrialRecord the_trial(const fs::path& path, Report&& report, std::ptrdiff_t variants) {
  if (report.trials.size() != 1 ||
      (variants >= 0 && std::ssize(report.trials[0].variants) != variants))
    throw std::runtime_error(path.string() +
                             ": is not what a rank of this run writes: the file was changed");
  return std::move(report.trials[0]);
}

// A variant that has ended on all ranks; none where the part of one of them is missing.
std::optional<VariantRecord> whole(const fs::path& session, std::size_t trial,
                                   const std::string& variant, const std::vector<int>& ranks) {
  std::optional<TrialRecord> all;
  for (const int rank : ranks) {
    const fs::path path = session / name_of_part(trial, variant, rank);
    auto part = read(path);
    if (!part) return std::nullopt;
    TrialRecord one = the_trial(path, std::move(*part), 1);
    if (all)
      join(*all, std::move(one));
    else
      all = std::move(one);
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

std::optional<Report> salvage(const fs::path& session, const Ending& ending) {
  auto report = read(session / kPlan);
  if (!report) return std::nullopt;
  report->run.interrupted = ending.interrupted;
  std::size_t under_way = report->trials.size();
  int first = 0, count = 0;
  TextIn(first_bytes(session / kAt, 100)) >> under_way >> first >> count;
  std::vector<int> ranks(static_cast<std::size_t>(std::clamp(count, 1, 1024)));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = first + static_cast<int>(i);
  std::string where = "before the first trial";
  for (std::size_t i = 0; i < report->trials.size(); ++i) {
    TrialRecord& trial = report->trials[i];
    if (auto whole = read(session / name_of_trial(i))) {
      trial = the_trial(session / name_of_trial(i), std::move(*whole), -1);
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

void finish_run(const fs::path& folder) {
  const fs::path session = folder / kUnfinished;
  std::error_code none;
  if (!fs::is_directory(session, none)) return;
  refuse_links(folder, kUnfinished);
  if (!fs::exists(folder / "report.json")) {
    for (const auto& entry : fs::directory_iterator(session))
      if (entry.path().filename().string().starts_with(kAlive) && stays_locked(entry.path()))
        throw std::runtime_error(
            fmt::format("{}: this run is still going on (rank {} is alive)", folder.string(),
                        entry.path().filename().string().substr(std::string_view(kAlive).size())));
    if (!fs::exists(session)) return;  // it has finished meanwhile
    std::string why = "its processes ended without a word";
    if (const std::string failed = first_bytes(session / "failed", 4096); !failed.empty())
      why = one_line(failed.substr(0, failed.find('\n')));
    const auto report = salvage(session, {why, false});
    if (!report)
      throw std::runtime_error(folder.string() +
                               ": this run ended before it had a plan: there is nothing to report");
    write_all(folder, *report);
  }
  fs::remove_all(session, none);
}

void remove_session(const fs::path& folder) {
  const fs::path session = folder / kUnfinished;
  std::error_code ignored;
  if (fs::exists(folder / "report.json") || !fs::exists(session / kPlan))
    fs::remove_all(session, ignored);
  if (fs::is_empty(folder, ignored)) fs::remove(folder, ignored);
}

}  // namespace tidemark
