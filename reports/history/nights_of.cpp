#include "reports/history/nights_of.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/compare/pairs.h"
#include "reports/history/history.h"
#include "reports/saving.h"

namespace tidemark {
namespace {

constexpr int kPatienceOfReaders = 2000;  // ms

/// "trial settings variant statistic".
using Name = std::tuple<std::string, std::string, std::string, std::string>;

/// The last run of each of the last days before `day`, the oldest first.
std::vector<std::int64_t> last_runs(Database& database, const std::string& day) {
  Statement runs(database,
                 "SELECT key, substr(started, 1, 10) AS day, max(started) FROM run WHERE started < "
                 "? GROUP BY day ORDER BY day DESC LIMIT ?");
  runs.bind(day, static_cast<std::int64_t>(kNights - 1));
  std::vector<std::int64_t> out;
  while (runs.next()) out.insert(out.begin(), runs.integer(0));
  return out;
}

/// The highest value of each variant in a run, over the phases: "memory/active/forward", and not
/// "memory/active/forward/end".
std::map<Name, Bytes> peaks_of(Database& database, std::int64_t run, const std::string& device) {
  Statement points(database,
                   "SELECT trial, settings, variant, metric, value FROM point JOIN series ON "
                   "series.key = point.series WHERE run = ? AND device = ? AND metric LIKE "
                   "'memory/%' AND value IS NOT NULL");
  points.bind(run, device);
  std::map<Name, Bytes> out;
  while (points.next()) {
    const std::string metric = points.text(3);
    const auto slash = metric.find('/', 7);
    if (slash == metric.npos || metric.ends_with("/end")) continue;
    Bytes& peak =
        out[{points.text(0), points.text(1), points.text(2), metric.substr(7, slash - 7)}];
    peak = std::max(peak, static_cast<Bytes>(points.real(4).value_or(0)));
  }
  return out;
}

}  // namespace

Nights nights_of(const std::filesystem::path& history, const Report& report) {
  Nights out;
  std::error_code ignored;
  if (report.run.started.size() < 10 || !std::filesystem::exists(history, ignored)) return out;
  std::vector<std::map<Name, Bytes>> past;
  try {
    Database database(history, Database::Open::read, kPatienceOfReaders);
    check_tables(database);
    database.run("BEGIN");  // one state of the file
    const std::string device = device_of(report.run);
    for (const std::int64_t run : last_runs(database, report.run.started.substr(0, 10)))
      past.push_back(peaks_of(database, run, device));
  } catch (const HistoryError&) {
    return out;
  }
  for (const TrialRecord& trial : report.trials)
    for (const VariantRecord& variant : trial.variants)
      for (const Statistic statistic : kStatistics) {
        std::vector<Bytes> peaks;
        const Name name{trial.name(), series_settings(report.run, trial), variant.name,
                        name_of(statistic)};
        for (const auto& night : past)
          if (const auto peak = night.find(name); peak != night.end())
            peaks.push_back(peak->second);
        const Bytes own = peak_of_any_step(variant, statistic).value_or(0);
        if (peaks.empty() || own == 0) continue;
        peaks.push_back(own);
        out.peaks[{&trial, variant.name, statistic}] = std::move(peaks);
      }
  return out;
}

Nights nights_beside(const std::filesystem::path& folder, const Report& report) {
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  return nights_of(
      (whole.has_filename() ? whole : whole.parent_path()).parent_path() / kHistoryFile, report);
}

}  // namespace tidemark
