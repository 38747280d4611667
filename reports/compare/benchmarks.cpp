#include "reports/compare/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

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

/// All values of a name, by metric, in the order of the file.
struct Gathered {
  std::string error;
  std::vector<Metric> metrics;
  std::map<std::string, std::size_t> places;  // of metrics, by name

  void add(Metric metric, double value) {
    const auto [place, fresh] = places.emplace(metric.name, metrics.size());
    if (fresh) metrics.push_back(std::move(metric));
    metrics[place->second].values.emplace_back(value);
  }
};

double median(std::vector<std::optional<double>> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? *values[half] : (*values[half - 1] + *values[half]) / 2;
}

void read_entry(const Node& node, Gathered& into) {
  if (node.has("error_occurred") && node["error_occurred"].boolean()) {
    into.error = node.has("error_message") ? node["error_message"].text() : "an error";
    return;
  }
  const std::string unit = node.has("time_unit") ? node["time_unit"].text() : "ns";
  if (!units().contains(unit))
    node.fail(fmt::format("time_unit is '{}', not ns, us, ms or s", unit));
  if (const double time = node["real_time"].number() * units().at(unit); time > 0)
    into.add({.name = "time/step", .kind = Kind::time, .unit = "ns"}, time);
  node.members([&](const std::string& name, const Node& value) {
    if (auto metric = metric_of(name)) into.add(std::move(*metric), value.number());
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
  root["benchmarks"].each([&](const Node& node) {
    const bool aggregate = node.has("run_type") && node["run_type"].text() == "aggregate";
    if (aggregate && node["aggregate_name"].text() != "median") return;
    const std::string name = node[node.has("run_name") ? "run_name" : "name"].text();
    if (!single.contains(name) && !medians.contains(name)) order.push_back(name);
    read_entry(node, (aggregate ? medians : single)[name]);
  });
  for (const std::string& name : order) {
    Gathered all = std::move(single.contains(name) ? single[name] : medians[name]);
    medians.erase(name), single.erase(name);  // its memory serves the next
    for (Metric& metric : all.metrics) metric.values = {median(metric.values)};
    out.entries.push_back({name, all.error, std::move(all.metrics)});
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
        a.metrics, b.metrics, &Metric::name,
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
