#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/history/history.h"
#include "reports/html.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kRuns = 20, kTrends = 100, kCharts = 8, kLevels = 5;

std::string figure(const std::optional<double>& value, const Metric& metric) {
  if (!value) return "no number";
  if (metric.unit == "ns" && std::abs(*value) < 9e18) return duration(static_cast<Ns>(*value));
  return exact(*value);
}

/// The trends worth showing: all, or those that stepped; the latest step first.
std::vector<const Trend*> shown(const History& history, bool all) {
  std::vector<const Trend*> out;
  for (const Trend& trend : history.trends)
    if (all || !trend.steps().empty()) out.push_back(&trend);
  if (!all)
    std::ranges::stable_sort(out, std::greater(), [](const Trend* trend) {
      return trend->points[trend->steps().back()].run;
    });
  return out;
}

std::string turn_of(const Trend& trend, std::size_t at) {
  const auto &before = trend.points[at - 1].value, &after = trend.points[at].value;
  if (trend.metric.worse == Worse::neither || !before) return "";
  if (!after || trend.metric.worse == Worse::any) return " (worse)";
  return (*after > *before) == (trend.metric.worse == Worse::up) ? " (worse)" : " (better)";
}

/// "5,242,880 (12 runs) -> 6,291,456 (3 runs, since 2026... git abc)": the last levels.
std::string levels(const Trend& trend, const History& history) {
  std::vector<std::size_t> from{0};
  for (std::size_t step : trend.steps()) from.push_back(step);
  std::string out;
  const std::size_t first = from.size() > kLevels ? from.size() - kLevels : 0;
  if (first > 0) out += fmt::format("... {} steps before ... -> ", first);
  for (std::size_t i = first; i < from.size(); ++i) {
    const std::size_t to = i + 1 < from.size() ? from[i + 1] : trend.points.size();
    const std::size_t n = to - from[i];
    out += fmt::format("{}{} ({} run{}", i == first ? "" : " -> ",
                       figure(trend.points[from[i]].value, trend.metric), n, n == 1 ? "" : "s");
    if (i > 0) {
      const PastRun& run = history.runs[trend.points[from[i]].run];
      out +=
          fmt::format(", since {}{}{}", one_line(run.id),
                      run.git.empty() ? "" : " git " + one_line(run.git), turn_of(trend, from[i]));
    }
    out += ")";
  }
  if (trend.metric.unit != "ns" && !trend.metric.unit.empty())
    out += " " + one_line(trend.metric.unit);
  return out;
}

std::string title(const Trend& trend, const History& history) {
  const bool ambiguous = std::ranges::any_of(history.trends, [&](const Trend& other) {
    return &other != &trend && other.name() == trend.name();
  });
  std::string out = one_line(trend.name());
  return ambiguous ? out + one_line(" (" + trend.settings + ", " + trend.device + ")") : out;
}

std::string summary(const History& history, std::size_t stepped) {
  return fmt::format("{}, {}, {} stepped", plural(std::ssize(history.runs), "run"),
                     plural(std::ssize(history.trends), "trend"),
                     exact(static_cast<std::int64_t>(stepped)));
}

/// Seconds since 1970 of "2026-01-31T00:00:00Z"; none of another text.
std::optional<double> seconds_of(const std::string& started) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (std::sscanf(started.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ", &year, &month, &day, &hour, &minute,
                  &second) != 6)
    return {};
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return {};
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return 86400.0 * static_cast<double>(days) + 3600.0 * hour + 60.0 * minute + second;
}

/// How far a trend went in its last step; 0 where it is no number.
double last_step(const Trend& trend) {
  const auto steps = trend.steps();
  if (steps.empty()) return 0;
  const auto &before = trend.points[steps.back() - 1].value,
             &after = trend.points[steps.back()].value;
  return before && after && std::isfinite(*after - *before) ? *after - *before : 0;
}

/// Trends that went by as much in the same run, of one variant at all schedules, phases and
/// statistics: told once.
struct Group {
  const Trend* first;
  std::size_t others = 0;
};

std::vector<Group> grouped(const std::vector<const Trend*>& trends, const History& history) {
  using Key = std::tuple<std::string, std::string, std::size_t, double>;
  std::vector<Group> out;
  std::map<Key, std::size_t> places;
  for (const Trend* trend : trends) {
    const auto scenario = trend->trial.find('/');
    const auto size =
        scenario == std::string::npos ? scenario : trend->trial.find('/', scenario + 1);
    const auto steps = trend->steps();
    const bool one = steps.empty() || trend->metric.unit != "bytes" || last_step(*trend) == 0;
    const Key key{trend->trial.substr(0, size), trend->variant,
                  one ? history.runs.size() + out.size() : trend->points[steps.back()].run,
                  last_step(*trend)};
    const auto [at, fresh] = places.try_emplace(key, out.size());
    if (fresh)
      out.push_back({trend});
    else
      ++out[at->second].others;
  }
  std::ranges::stable_sort(out, std::greater(), [](const Group& group) {
    return std::pair(group.first->metric.unit == "bytes", std::abs(last_step(*group.first)));
  });
  return out;
}

/// "2026-01-31 14:05" of "2026-01-31T14:05:59Z".
std::string when(const PastRun& run) {
  return seconds_of(run.started) ? run.started.substr(0, 10) + " " + run.started.substr(11, 5)
                                 : one_line(run.started);
}

/// What a reader has to know first: the largest step of bytes, or that there is none.
std::string headline(const History& history, const std::vector<Group>& groups) {
  const std::string runs = plural(std::ssize(history.runs), "run");
  const auto stepped = [](const Group& group) { return !group.first->steps().empty(); };
  const auto n = std::ranges::count_if(groups, stepped);
  if (n == 0) return "no metric stepped in " + runs;
  const Trend& trend = *std::ranges::find_if(groups, stepped)->first;
  const PastRun& since = history.runs[trend.points[trend.steps().back()].run];
  const double by = last_step(trend);
  const std::string what =
      trend.metric.unit == "bytes" && by != 0
          ? fmt::format("{} of {}: {} {}", trend.variant, trend.trial,
                        bytes_text(static_cast<Bytes>(std::abs(by))), by > 0 ? "more" : "less")
          : trend.name() + " stepped";
  return one_line(fmt::format("{} since {}{}{}", what, when(since),
                              since.git.empty() ? "" : fmt::format(" (git {})", since.git),
                              n > 1 ? fmt::format(", and {}", plural(n - 1, "other step")) : ""));
}

}  // namespace

std::string history_text(const History& history, bool all) {
  const auto stepped = shown(history, false);
  const auto groups = grouped(all ? shown(history, true) : stepped, history);
  std::string out = headline(history, groups) + "\n";
  if (!groups.empty())
    out += all ? "\ntrends\n" : "\nwhat stepped, the largest step of bytes first\n";
  for (std::size_t i = 0; i < std::min(groups.size(), kTrends); ++i)
    out += fmt::format(
        "  {}: {}{}\n", title(*groups[i].first, history), levels(*groups[i].first, history),
        groups[i].others ? fmt::format("; and {} more that went as far", groups[i].others) : "");
  if (groups.size() > kTrends)
    out += fmt::format("  and {} more (--metric GLOB chooses, --format json has all)\n",
                       groups.size() - kTrends);
  out += "\nruns\n";
  const std::size_t first = history.runs.size() > kRuns ? history.runs.size() - kRuns : 0;
  if (first > 0) out += fmt::format("  ... and {} before\n", first);
  for (std::size_t i = first; i < history.runs.size(); ++i) {
    const PastRun& run = history.runs[i];
    out += fmt::format("  {}  {}  exit {}  {} passed, {} failed, {} skipped  {}  git {}\n",
                       one_line(run.started), one_line(run.id), run.exit_code, run.passed,
                       run.failed, run.skipped, one_line(run.device), one_line(run.git));
  }
  return out + "\n" + summary(history, stepped.size()) + "\n";
}

std::string history_json(const History& history) {
  Json out{{"schema", "tidemark/history"},
           {"schema_version", "1.0"},
           {"runs", Json::array()},
           {"trends", Json::array()}};
  for (const PastRun& run : history.runs)
    out["runs"].push_back({{"id", run.id},
                           {"started", run.started},
                           {"folder", run.folder},
                           {"git", run.git},
                           {"device", run.device},
                           {"exit_code", run.exit_code},
                           {"passed", run.passed},
                           {"failed", run.failed},
                           {"skipped", run.skipped}});
  for (const Trend& trend : history.trends) {
    Json points = Json::array(), stepped = Json::array();
    for (const PastPoint& point : trend.points) {
      Json value = nullptr;
      if (point.value && std::isfinite(*point.value)) value = *point.value;
      if (point.value && std::isinf(*point.value)) value = *point.value > 0 ? "inf" : "-inf";
      points.push_back({{"run", history.runs[point.run].id}, {"value", value}});
    }
    for (std::size_t at : trend.steps()) stepped.push_back(history.runs[trend.points[at].run].id);
    out["trends"].push_back({{"trial", trend.trial},
                             {"settings", trend.settings},
                             {"device", trend.device},
                             {"variant", trend.variant},
                             {"metric", trend.metric.name},
                             {"kind", name_of(trend.metric.kind)},
                             {"worse", name_of(trend.metric.worse)},
                             {"unit", trend.metric.unit},
                             {"points", points},
                             {"stepped_at", stepped}});
  }
  return json_text(out);
}

namespace {

Chart chart_of(const Trend& trend, const History& history, bool dates) {
  Line line{trend.metric.unit, {}};
  for (const PastPoint& point : trend.points) {
    const PastRun& run = history.runs[point.run];
    line.points.emplace_back(dates ? *seconds_of(run.started) : static_cast<double>(point.run),
                             point.value.value_or(NAN));
    line.notes.push_back(fmt::format("({}{}{})", one_line(run.started),
                                     run.git.empty() ? "" : ", git ", one_line(run.git)));
  }
  return {trend.metric.name, dates ? "date" : "run (oldest first)",
          trend.metric.unit, trend.metric.unit == "bytes",
          {std::move(line)}, dates};
}

Section stepped_rows(const std::vector<Group>& groups, const History& history) {
  Section out{"What stepped",
              {"Steps of bytes come first, the largest above."},
              {},
              {{"metric", "from", "to", "by", "since (UTC)", "git", "also"}}};
  for (std::size_t i = 0; i < std::min(groups.size(), kTrends); ++i) {
    const Trend& trend = *groups[i].first;
    const auto steps = trend.steps();
    if (steps.empty()) continue;
    const PastPoint &before = trend.points[steps.back() - 1], &after = trend.points[steps.back()];
    const double by = last_step(trend);
    const bool sized = trend.metric.unit == "bytes" && before.value && after.value;
    const auto level = [&](const PastPoint& point) {
      return sized ? fmt::format("{}\t{} bytes", bytes_text(static_cast<Bytes>(*point.value)),
                                 exact(*point.value))
                   : figure(point.value, trend.metric);
    };
    const PastRun& run = history.runs[after.run];
    const std::string turn = turn_of(trend, steps.back());
    out.rows.push_back(
        {title(trend, history), level(before), level(after),
         sized          ? fmt::format("{}{}\t{} bytes", signed_text(static_cast<Bytes>(by)), turn,
                                      signed_bytes(static_cast<Bytes>(by)))
         : turn.empty() ? ""
                        : turn.substr(1),
         when(run) + "\t" + run.started, run.git,
         groups[i].others == 0 ? "" : fmt::format("{} more that went as far", groups[i].others)});
  }
  if (groups.size() > kTrends)
    out.text.push_back(fmt::format("And {} more: --metric GLOB chooses.", groups.size() - kTrends));
  return out;
}

}  // namespace

std::string history_html(const History& history, bool all) {
  const auto stepped = shown(history, false);
  const std::vector<Group> groups = grouped(all ? shown(history, true) : stepped, history);
  const bool dates = std::ranges::all_of(
      history.runs, [](const PastRun& run) { return seconds_of(run.started).has_value(); });
  Document out{"history", headline(history, groups), Status::pass, {}};
  out.sections.push_back({"", {summary(history, stepped.size()) + "."}});
  if (!stepped.empty()) out.sections.push_back(stepped_rows(groups, history));
  if (groups.empty() && !history.trends.empty())
    out.sections.push_back({"",
                            {"No metric stepped in these runs. --metric GLOB draws those that it "
                             "names, such as 'memory/active/*'."}});
  for (std::size_t i = 0; i < std::min(groups.size(), kCharts); ++i) {
    const Trend& trend = *groups[i].first;
    out.sections.push_back(
        {title(trend, history), {levels(trend, history)}, {chart_of(trend, history, dates)}});
  }
  if (groups.size() > kCharts)
    out.sections.push_back(
        {"", {fmt::format("And {} more without a picture.", groups.size() - kCharts)}});
  Section runs{"Runs",
               {},
               {},
               {{"run", "started (UTC)", "exit", "passed", "failed", "skipped", "device", "git"}}};
  for (auto run = history.runs.rbegin(); run != history.runs.rend(); ++run)
    runs.rows.push_back({run->id + "\t" + run->folder, when(*run) + "\t" + run->started,
                         std::to_string(run->exit_code), exact(run->passed), exact(run->failed),
                         exact(run->skipped), run->device, run->git});
  out.sections.push_back(std::move(runs));
  return html(out);
}

}  // namespace tidemark
