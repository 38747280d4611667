#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/history/history.h"
#include "reports/html.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kRuns = 20, kTrends = 100, kCharts = 40, kLevels = 5;

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
  return fmt::format("{} run{}, {} trend{}, {} stepped", history.runs.size(),
                     history.runs.size() == 1 ? "" : "s", history.trends.size(),
                     history.trends.size() == 1 ? "" : "s", stepped);
}

}  // namespace

std::string history_text(const History& history, bool all) {
  std::string out = "runs\n";
  const std::size_t first = history.runs.size() > kRuns ? history.runs.size() - kRuns : 0;
  if (first > 0) out += fmt::format("  ... and {} before\n", first);
  for (std::size_t i = first; i < history.runs.size(); ++i) {
    const PastRun& run = history.runs[i];
    out += fmt::format("  {}  {}  exit {}  {} passed, {} failed, {} skipped  {}  git {}\n",
                       one_line(run.started), one_line(run.id), run.exit_code, run.passed,
                       run.failed, run.skipped, one_line(run.device), one_line(run.git));
  }
  const auto stepped = shown(history, false);
  const auto trends = all ? shown(history, true) : stepped;
  out += trends.empty() ? "\nno metric stepped\n" : all ? "\ntrends\n" : "\nmetrics that stepped\n";
  for (std::size_t i = 0; i < std::min(trends.size(), kTrends); ++i)
    out += fmt::format("  {}: {}\n", title(*trends[i], history), levels(*trends[i], history));
  if (trends.size() > kTrends)
    out += fmt::format("  and {} more (--metric GLOB chooses, --format json has all)\n",
                       trends.size() - kTrends);
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

std::string history_html(const History& history, bool all) {
  const auto stepped = shown(history, false);
  const auto trends = all ? shown(history, true) : stepped;
  Document out{"history", summary(history, stepped.size()), Status::pass};
  for (std::size_t i = 0; i < std::min(trends.size(), kCharts); ++i) {
    const Trend& trend = *trends[i];
    Line line{trend.metric.unit};
    for (const PastPoint& point : trend.points)
      line.points.emplace_back(static_cast<double>(point.run), point.value.value_or(NAN));
    out.sections.push_back({title(trend, history),
                            {levels(trend, history)},
                            {{trend.metric.name,
                              "run (oldest first)",
                              trend.metric.unit,
                              trend.metric.unit == "bytes",
                              {std::move(line)}}}});
  }
  if (trends.size() > kCharts)
    out.sections.push_back(
        {"", {fmt::format("And {} more: --metric GLOB chooses.", trends.size() - kCharts)}});
  Section runs{
      "Runs",
      {},
      {},
      {{"run", "started", "exit", "passed", "failed", "skipped", "device", "git", "folder"}}};
  for (auto run = history.runs.rbegin(); run != history.runs.rend(); ++run)
    runs.rows.push_back({run->id, run->started, std::to_string(run->exit_code),
                         std::to_string(run->passed), std::to_string(run->failed),
                         std::to_string(run->skipped), run->device, run->git, run->folder});
  out.sections.push_back(std::move(runs));
  return html(out);
}

}  // namespace tidemark
