#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <string_view>

#include "reports/compare/threshold.h"
#include "reports/history/history.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
constexpr int kPatience = 10000;

fs::path file_of(const fs::path& path) {
  std::error_code error;
  fs::path file = fs::is_directory(path, error) ? path / kHistoryFile : path;
  if (!fs::exists(file, error))
    throw HistoryError(
        fmt::format("{}: has no history: give the folder of the runs (`tidemark run` writes "
                    "history.sqlite there)",
                    file.string()));
  return file;
}

/// The number before the unit of an age ("7d"), or none.
std::optional<std::chrono::seconds> age(const std::string& text) {
  std::int64_t n = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
  if (read.ec != std::errc() || n < 0 || n > 1'000'000) return std::nullopt;
  const std::string_view unit(read.ptr,
                              static_cast<std::size_t>(text.data() + text.size() - read.ptr));
  if (unit == "d") return std::chrono::hours(24 * n);
  if (unit == "h") return std::chrono::hours(n);
  if (unit == "m") return std::chrono::minutes(n);
  return std::nullopt;
}

bool matches(const std::vector<std::string>& globs, const Trend& trend) {
  return globs.empty() || std::ranges::any_of(globs, [&](const std::string& glob) {
           return fnmatch(glob.c_str(), trend.metric.name.c_str(), 0) == 0 ||
                  fnmatch(glob.c_str(), trend.name().c_str(), 0) == 0;
         });
}

template <class Enum>
Enum enumerator(Database& database, std::int64_t value, Enum last) {
  if (value < 0 || value > static_cast<std::int64_t>(last))
    database.fail("is damaged: move it away, and the next run begins a new one");
  return static_cast<Enum>(value);
}

}  // namespace

std::string since_text(const std::string& since) {
  if (const auto seconds = age(since)) {
    const auto then = std::chrono::system_clock::now() - *seconds;
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(then)));
  }
  constexpr std::string_view kDate = "0000-00-00T00:00:00Z";
  const auto like = [](char c, char shape) {
    return shape == '0' ? c >= '0' && c <= '9' : c == shape;
  };
  const std::size_t size = since.size();
  if ((size == 10 || size == 16 || size == 20) &&
      std::equal(since.begin(), since.end(), kDate.begin(),
                 like))  // what is left out is its beginning
    return since + std::string(kDate.substr(size));
  throw HistoryError(fmt::format(
      "'{}' is neither a date (2026-01-31, 2026-01-31T12:00:00Z) nor an age (7d, 12h, 30m)",
      since));
}

std::string Trend::name() const { return trial + " " + variant + " " + metric.name; }

std::vector<std::size_t> Trend::steps() const {
  const Thresholds thresholds({});
  std::vector<std::size_t> out;
  for (std::size_t i = 1, level = 0; i < points.size(); ++i) {
    const auto &before = points[level].value, &after = points[i].value;
    const bool moved = before && after ? thresholds.beyond(metric, *before, *after)
                                       : before.has_value() != after.has_value();
    if (!moved) continue;
    out.push_back(i);
    level = i;
  }
  return out;
}

History read_history(const fs::path& path, const HistoryQuery& query) {
  const fs::path file = file_of(path);
  const std::string since = query.since.empty() ? "" : since_text(query.since);
  Database database(file, Database::Open::read, kPatience);
  check_tables(database);
  database.run("BEGIN");  // one state of the file, although other processes may write
  History out;
  std::map<std::int64_t, std::size_t> place;
  Statement runs(database,
                 "SELECT key, id, started, folder, git, device, exit_code, passed, failed, skipped "
                 "FROM run WHERE started >= ? ORDER BY started, key");
  for (runs.bind(since); runs.next();) {
    place[runs.integer(0)] = out.runs.size();
    out.runs.push_back({runs.text(1), runs.text(2), runs.text(3), runs.text(4), runs.text(5),
                        static_cast<int>(runs.integer(6)), static_cast<int>(runs.integer(7)),
                        static_cast<int>(runs.integer(8)), static_cast<int>(runs.integer(9))});
  }
  std::map<std::int64_t, Trend> trends;
  Statement series(database,
                   "SELECT key, trial, settings, device, variant, metric, kind, worse, unit "
                   "FROM series");
  while (series.next()) {
    Trend trend{series.text(1), series.text(2), series.text(3), series.text(4), {}, {}};
    trend.metric = {series.text(5),
                    enumerator(database, series.integer(6), Kind::counters),
                    enumerator(database, series.integer(7), Worse::neither),
                    series.text(8),
                    {}};
    if (matches(query.metrics, trend)) trends.emplace(series.integer(0), std::move(trend));
  }
  Statement points(database, "SELECT series, run, value FROM point");
  while (points.next()) {
    const auto trend = trends.find(points.integer(0));
    const auto run = place.find(points.integer(1));
    if (trend != trends.end() && run != place.end())
      trend->second.points.push_back({run->second, points.real(2)});
  }
  for (auto& [key, trend] : trends) {
    if (trend.points.empty()) continue;
    std::ranges::sort(trend.points, {}, &PastPoint::run);
    out.trends.push_back(std::move(trend));
  }
  std::ranges::sort(out.trends, {}, [](const Trend& t) {
    return std::tuple(t.trial, t.settings, t.device, t.variant, t.metric.kind, t.metric.name);
  });
  return out;
}

fs::path last_good(const fs::path& path) {
  const fs::path file = file_of(path);
  Database database(file, Database::Open::read, kPatience);
  check_tables(database);
  Statement runs(database,
                 "SELECT folder FROM run WHERE exit_code = 0 ORDER BY started DESC, key DESC");
  while (runs.next()) {
    fs::path folder = file.parent_path() / runs.text(0);
    std::error_code error;
    if (fs::exists(folder / "report.json", error)) return folder;
  }
  return {};
}

int prune_history(const fs::path& path, const std::string& keep) {
  const fs::path file = file_of(path);
  std::int64_t count = 0;
  const auto read = std::from_chars(keep.data(), keep.data() + keep.size(), count);
  const bool counted = read.ec == std::errc() && read.ptr == keep.data() + keep.size();
  if (counted && count < 0) throw HistoryError(fmt::format("--prune {}: keep at least 0", keep));
  const std::string since = counted ? "" : since_text(keep);
  Database database(file, Database::Open::write, kPatience);
  check_tables(database);
  database.run("PRAGMA foreign_keys = ON");
  Transaction transaction(database);
  Statement remove(database, counted
                                 ? "DELETE FROM run WHERE key NOT IN "
                                   "(SELECT key FROM run ORDER BY started DESC, key DESC LIMIT ?)"
                                 : "DELETE FROM run WHERE started < ?");
  (counted ? remove.bind(count) : remove.bind(since)).next();
  const auto removed = database.changes();
  database.run("DELETE FROM series WHERE key NOT IN (SELECT series FROM point)");
  transaction.commit();
  database.run("VACUUM");
  return static_cast<int>(removed);
}

}  // namespace tidemark
