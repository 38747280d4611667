#include "reports/compare/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

#include "harness/record/json_node.h"
#include "reports/compare/pairs.h"

namespace tidemark {
namespace {

const std::map<std::string, double>& units() {
  static const std::map<std::string, double> all{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  return all;
}

/// The metric of a counter, without values; none for others, which may measure anything.
std::optional<Metric> metric_of(const std::string& counter) {
  if (counter.starts_with("peak_")) return Metric{.name = "memory/" + counter.substr(5) + "/peak"};
  if (counter == "saved")
    return Metric{.name = "saving/saved", .kind = Kind::saving, .worse = Worse::down};
  if (counter == "collectives" || counter == "retries")
    return Metric{.name = "counters/" + counter, .kind = Kind::counters, .unit = "calls"};
  if (counter == "collective_bytes")
    return Metric{.name = "counters/" + counter, .kind = Kind::counters};
  return std::nullopt;
}

/// The metrics of a file, each once: a file has many figures and few names.
struct Named {
  std::vector<Metric> metrics;
  std::map<std::string, std::uint32_t> places;

  std::uint32_t place_of(Metric metric) {
    const auto [place, fresh] =
        places.emplace(metric.name, static_cast<std::uint32_t>(metrics.size()));
    if (fresh) metrics.push_back(std::move(metric));
    return place->second;
  }
};

/// All figures of a name, in the order of the file.
struct Gathered {
  std::string error;
  std::vector<BenchmarkFigure> figures;
};

/// One figure of each metric, the median, in the order in which the metrics come.
std::vector<BenchmarkFigure> medians_of(const std::vector<BenchmarkFigure>& figures) {
  std::vector<std::uint32_t> by_metric(figures.size());
  std::iota(by_metric.begin(), by_metric.end(), 0);
  std::ranges::sort(by_metric, {}, [&](std::uint32_t i) {
    return std::tuple(figures[i].metric, figures[i].value, i);
  });
  std::vector<std::pair<std::uint32_t, BenchmarkFigure>> found;  // with its first place
  for (std::size_t begin = 0, end = 0; begin < by_metric.size(); begin = end) {
    const std::uint32_t metric = figures[by_metric[begin]].metric;
    std::uint32_t first = by_metric[begin];
    for (; end < by_metric.size() && figures[by_metric[end]].metric == metric; ++end)
      first = std::min(first, by_metric[end]);
    const std::size_t count = end - begin, half = begin + count / 2;
    const double upper = figures[by_metric[half]].value;
    found.push_back(
        {first,
         {metric, count % 2 == 1 ? upper : (figures[by_metric[half - 1]].value + upper) / 2}});
  }
  std::ranges::sort(found, {}, [](const auto& one) { return one.first; });
  std::vector<BenchmarkFigure> out;
  out.reserve(found.size());
  for (const auto& [place, figure] : found) out.push_back(figure);
  return out;
}

void read_entry(const Node& node, Named& named, Gathered& into) {
  if (node.has("error_occurred") && node["error_occurred"].boolean()) {
    into.error = node.has("error_message") ? node["error_message"].text() : "an error";
    return;
  }
  const std::string unit = node.has("time_unit") ? node["time_unit"].text() : "ns";
  if (!units().contains(unit))
    node.fail(fmt::format("time_unit is '{}', not ns, us, ms or s", unit));
  if (const double time = node["real_time"].number() * units().at(unit); time > 0)
    into.figures.push_back(
        {named.place_of({.name = "time/step", .kind = Kind::time, .unit = "ns"}), time});
  node.members([&](const std::string& name, const Node& value) {
    if (auto metric = metric_of(name))
      into.figures.push_back({named.place_of(std::move(*metric)), value.number()});
  });
}

std::string text_or_nothing(const Node& node, const char* name) {
  return node.has(name) ? node[name].text() : "";
}

}  // namespace

bool is_benchmarks(std::string_view begin) {
  const auto skip = [&] {
    begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
  };
  skip();
  if (!begin.starts_with('{')) return false;
  begin.remove_prefix(1);
  skip();
  return begin.starts_with("\"context\"");
}

Benchmarks parse_benchmarks(std::string_view text, const std::string& where) {
  const auto json = json_of_others(text, where);
  if (!json)
    throw std::runtime_error(where +
                             ": not JSON; give a file of --benchmark_out or benchmark.json");
  const Node root(json->root(), where);
  Benchmarks out;
  const Node context = root["context"];
  out.run.id = "of benchmarks";
  out.run.started = text_or_nothing(context, "date");
  out.run.host = text_or_nothing(context, "host_name");
  out.run.tidemark = text_or_nothing(context, "tidemark");
  out.run.profile = text_or_nothing(context, "tidemark_device");
  std::vector<std::string> order;
  std::map<std::string, Gathered> single, medians;
  Named named;
  root["benchmarks"].each([&](const Node& node) {
    const bool aggregate = node.has("run_type") && node["run_type"].text() == "aggregate";
    if (aggregate && node["aggregate_name"].text() != "median") return;
    const std::string name = node[node.has("run_name") ? "run_name" : "name"].text();
    if (!single.contains(name) && !medians.contains(name)) order.push_back(name);
    read_entry(node, named, (aggregate ? medians : single)[name]);
  });
  for (const std::string& name : order) {
    Gathered all = std::move(single.contains(name) ? single[name] : medians[name]);
    medians.erase(name), single.erase(name);  // its memory serves the next
    out.entries.push_back({name, all.error, medians_of(all.figures)});
  }
  out.metrics = std::move(named.metrics);
  return out;
}

std::vector<Metric> Benchmarks::metrics_of(const BenchmarkEntry& entry) const {
  std::vector<Metric> out;
  for (const BenchmarkFigure& figure : entry.figures) {
    out.push_back(metrics[figure.metric]);
    out.back().values = {figure.value};
  }
  return out;
}

Comparison compare(const Benchmarks& base, const Benchmarks& fresh, const CompareOptions& options) {
  Comparison out;
  out.allow_missing = options.allow_missing;
  const Thresholds thresholds(options.thresholds);
  std::set<std::string> used;
  const auto both = [&](const BenchmarkEntry& a, const BenchmarkEntry& b) {
    const Place place{a.name, "", {}};
    if (a.error.empty() != b.error.empty()) {
      const bool broke = a.error.empty();
      out.turns.push_back({place, kEndedEarly, broke ? "ran" : "error", broke ? "error" : "ran",
                           b.error, broke ? Effect::regression : Effect::improvement});
      return;
    }
    pair_items(
        base.metrics_of(a), fresh.metrics_of(b), &Metric::name,
        [&](const Metric& x, const Metric& y) {
          ++out.metrics;
          used.insert(thresholds.of(x).text);
          Outcome outcome = compare_metric(x, y, thresholds);
          if (outcome.differs && !outcome.change) ++out.within;
          if (!outcome.change) return;
          outcome.change->place = place;
          out.changes.push_back(std::move(*outcome.change));
        },
        [&](const Metric& x) { out.missing.push_back(a.name + " " + x.name); },
        [&](const Metric& y) { out.fresh.push_back(a.name + " " + y.name); });
  };
  pair_items(
      base.entries, fresh.entries, &BenchmarkEntry::name, both,
      [&](const BenchmarkEntry& a) { out.missing.push_back(a.name); },
      [&](const BenchmarkEntry& b) { out.fresh.push_back(b.name); });
  out.differently = differences(base.run, fresh.run);
  for (const Threshold& threshold : options.thresholds)
    if (!used.contains(threshold.text)) out.unmatched.push_back(threshold.text);
  for (const Threshold& threshold : thresholds.all()) out.thresholds.push_back(threshold.text);
  std::ranges::stable_sort(out.changes, [](const Change& a, const Change& b) {
    return std::tuple(a.effect, a.kind, -a.size) < std::tuple(b.effect, b.kind, -b.size);
  });
  return out;
}

}  // namespace tidemark
