#include "reports/compare/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/record/fields.h"
#include "harness/record/verdict_kind.h"
#include "reports/overview.h"

namespace tidemark {
namespace {

using Values = std::vector<std::optional<double>>;

/// Figures of the steps, gathered by name in the order of their first appearance.
class Series {
 public:
  explicit Series(std::size_t steps) : steps_(steps) {}

  void set(const std::string& name, Kind kind, const std::string& unit, std::size_t step,
           double value, std::optional<double> scale = {}) {
    const auto [at, fresh] = index_.emplace(name, metrics_.size());
    if (fresh) metrics_.push_back({name, kind, Worse::up, unit, Values(steps_), scale});
    metrics_[at->second].values[step] = value;
  }
  /// From zero where there was nothing to count in a step.
  void count(const std::string& name, std::size_t step, double value) {
    set(name, Kind::counters, "calls", step, value);
    Metric& metric = metrics_[index_.at(name)];
    metric.counted = true;
    for (auto& each : metric.values)
      if (!each) each = 0;
  }
  std::vector<Metric> take() { return std::move(metrics_); }

 private:
  std::size_t steps_;
  std::map<std::string, std::size_t> index_;
  std::vector<Metric> metrics_;
};

/// A name that may come several times in a step is told apart by its place: "backward", "backward
/// (2)".
class Places {
 public:
  std::string operator()(const std::string& name) {
    const int before = seen_[name]++;
    return before == 0 ? name : fmt::format("{} ({})", name, before + 1);
  }

 private:
  std::map<std::string, int> seen_;
};

double number(std::int64_t value) { return static_cast<double>(value); }

Metric bytes(std::string name, Bytes value, Worse worse = Worse::up, bool counted = false) {
  return {std::move(name), Kind::memory, worse, "bytes", {number(value)}, {}, counted};
}
Metric counter(std::string name, std::int64_t value, const char* unit) {
  return {std::move(name), Kind::counters, Worse::up, unit, {number(value)}};
}
Metric races(std::size_t count) {
  return {"races", Kind::races, Worse::up, "races", {static_cast<double>(count)}};
}

void add_step(const Step& step, std::size_t at, const std::array<double, 4>& highest,
              Series& series) {
  Places phases, moments;
  for (const Phase& phase : step.phases) {
    const std::string name = phases(phase.name);
    for (Statistic s : kStatistics) {
      const std::string metric = fmt::format("memory/{}/{}", name_of(s), name);
      const double scale = highest[static_cast<std::size_t>(s)];
      series.set(metric, Kind::memory, "bytes", at, number(phase[s].peak), scale);
      series.set(metric + "/end", Kind::memory, "bytes", at, number(phase[s].end), scale);
    }
  }
  for (const Moment& moment : step.moments) {
    const std::string name = "moment/" + moments(moment.name);
    series.set(name, Kind::memory, "bytes", at, number(moment.allocated), highest[0]);
    series.set(name + "/requested", Kind::memory, "bytes", at, number(moment.requested),
               highest[0]);
  }
  std::map<std::string, int> calls;
  for (const Call& call : step.calls) ++calls[call.op];
  for (const auto& [op, count] : calls) series.count("calls/" + op, at, count);
}

/// The single figures among a struct's fields: bytes and counts. Not those that only some runs
/// have.
class Figures {
 public:
  Figures(std::vector<Metric>& out, std::string path, double scale)
      : out_(out), path_(std::move(path)), scale_(scale) {}

  void operator()(const char* key, const std::int64_t& x, const Meaning& meaning = {},
                  const char* = "") {
    if (meaning.name == meaning::bytes.name)
      out_.push_back({path_ + key, Kind::memory, Worse::up, "bytes", {number(x)}, scale_});
    else if (meaning.name == meaning::count.name)
      out_.push_back(counter(path_ + key, x, "times"));
  }
  void operator()(const char* key, const std::map<std::string, std::int64_t>& all, const Meaning&,
                  const char* = "") {
    for (const auto& [name, calls] : all) {
      out_.push_back(counter(fmt::format("{}/{}", key, name), calls, "calls"));
      out_.back().counted = true;
    }
  }
  void operator()(const char* key, Counters& counters, const Meaning& = {}, const char* = "") {
    Figures inner(out_, fmt::format("{}{}/", path_, key), scale_);
    visit(counters, inner);
  }
  void group(const char* key, const char*, auto fields) {
    Figures inner(out_, fmt::format("{}{}/", path_, key), scale_);
    fields(inner);
  }

  // Everything else is no figure of its own.
  void operator()(const char*, const auto&, const auto&...) {}
  void title(auto&&...) {}
  void later(auto&&...) {}
  void optional(auto&&...) {}
  void runs(auto&&...) {}
  void detail(auto&&...) {}
  void exported(auto&&...) {}
  void once_read(auto&&...) {}
  void derived(auto&&...) {}

 private:
  std::vector<Metric>& out_;
  std::string path_;
  double scale_;
};

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"loss",   "parity", "races",   "memory",
                                    "saving", "time",   "counters"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* name_of(Worse worse) {
  constexpr const char* kNames[] = {"up", "down", "any", "neither"};
  return kNames[static_cast<std::size_t>(worse)];
}

std::vector<Metric> metrics_of(const VariantRecord& variant) {
  std::vector<Metric> out;
  if (std::ranges::any_of(variant.loss, [](const LossPoint& p) { return p.value.has_value(); })) {
    out.push_back({"loss", Kind::loss, Worse::any, "", {}});
    for (const LossPoint& point : variant.loss) out.back().values.push_back(point.value);
  }
  if (!variant.step_time_ns.empty())
    out.push_back({"time/step", Kind::time, Worse::up, "ns", {number(typical_step_time(variant))}});
  for (const SweepPoint& p : variant.sweep) {
    const auto name = [&](const char* what) { return fmt::format("sweep/{}/{}", what, p.ratio); };
    for (const auto& [what, peak] :
         {std::pair{"allocated", p.allocated}, {"active", p.active}, {"reserved", p.reserved}})
      out.push_back(bytes(name(what), peak));
    out.push_back({name("time"), Kind::time, Worse::up, "ns", {number(p.step_time_ns)}});
  }
  for (const Growth& curve : variant.growth)
    for (const GrowthPoint& p : curve.points)
      for (const auto& [what, peak] : {std::pair{"allocated", p.measured.allocated},
                                       {"active", p.measured.active},
                                       {"reserved", p.measured.reserved},
                                       {"resident", p.measured.resident}})
        if (peak)
          out.push_back(
              bytes(fmt::format("growth/{}/{}={}", what, curve.parameter, p.value), *peak));
  return out;
}

std::vector<Metric> metrics_of(const RankRecord& rank) {
  std::array<double, 4> highest{};
  for (const Step& step : rank.steps)
    for (const Phase& phase : step.phases)
      for (std::size_t s = 0; s < 4; ++s)
        highest[s] = std::max(highest[s], number(phase.levels[s].peak));
  Series series(rank.steps.size());
  for (std::size_t i = 0; i < rank.steps.size(); ++i) add_step(rank.steps[i], i, highest, series);
  std::vector<Metric> out = series.take();

  const auto add = [&](const std::string& name, Bytes value, Worse worse) {
    out.push_back({name, Kind::memory, worse, "bytes", {number(value)}, highest[0], true});
  };
  out.push_back(races(rank.races.size()));
  for (const auto& [kind, bytes] : rank.categories) {
    const std::string name = name_of(kind);
    // The shares of one peak: what one gains another loses.
    add("category/" + name, bytes.peak_share, Worse::neither);
    add("category/" + name + "/end", bytes.end, Worse::up);
  }
  Figures figures(out, "", highest[0]);
  visit(const_cast<RankRecord&>(rank), figures);  // `visit` serves reading too; this only looks
  return out;
}

std::vector<Metric> metrics_of(const DeviceRecord& device) {
  return {bytes("memory/allocated", device.allocated), bytes("memory/active", device.active),
          bytes("memory/reserved", device.reserved),
          counter("counters/retries", device.retries, "times"),
          counter("counters/ooms", device.ooms, "times")};
}

std::vector<Metric> metrics_of(const ProcessRecord& process) {
  std::vector<Metric> out{races(process.races.size())};
  std::map<std::string, std::int64_t> sums;  // communicators' names are another run's others
  for (const CollectiveCalls& calls : process.collectives)
    sums[fmt::format("{} of {} ranks", calls.function, calls.ranks)] += calls.bytes;
  for (const auto& [name, sum] : sums) {
    out.push_back(bytes("collectives/" + name, sum, Worse::neither, true));
    out.back().kind = Kind::counters;
  }
  return out;
}

std::vector<Metric> metrics_of(const AliveAtPeak& alive) {
  std::vector<Metric> out;
  for (const AlivePart& part : alive.parts) {
    std::string name = std::string("alive/") + name_of(part.kind);
    for (const std::string& more : {part.module, part.site})
      if (!more.empty()) name += ", " + more;
    out.push_back(bytes(std::move(name), part.bytes, Worse::neither, true));
    out.back().scale = 1;  // a line is as large as its bytes, not as its percentage
  }
  return out;
}

std::optional<Metric> metric_of(const Verdict& verdict) {
  const auto metric = [&](Kind kind, Worse worse) {
    return Metric{verdict.name, kind, worse, verdict.unit, {verdict.measured}};
  };
  switch (kind_of(verdict)) {
    case VerdictKind::saving:
      return metric(Kind::saving, Worse::down);
    case VerdictKind::parity:
      return metric(Kind::parity, Worse::up);
    case VerdictKind::cost:
      return metric(Kind::counters, Worse::up);
    default:
      return std::nullopt;
  }
}

}  // namespace tidemark
