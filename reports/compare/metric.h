// Every figure that a run recorded, under a name, with the direction in which it gets worse.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// What a metric is about; thresholds are given by kind. In the order in which a person asks.
enum class Kind { loss, parity, races, memory, saving, time, counters };
inline constexpr std::array kKinds{Kind::loss,   Kind::parity, Kind::races,   Kind::memory,
                                   Kind::saving, Kind::time,   Kind::counters};
const char* name_of(Kind);

enum class Worse { up, down, any, neither };
const char* name_of(Worse);

struct Metric {
  std::string name;  // memory/<statistic>/<phase>[/end], loss, time/step, counters/num_ooms ...
  Kind kind = Kind::memory;
  Worse worse = Worse::up;
  std::string unit = "bytes";
  std::vector<std::optional<double>> values;  // by step; one where there is one figure a run
  std::optional<double> scale = {};  // what a change is held against to say how large it is; none:
                                     // the value before
  bool counted = false;              // an absent one is 0, not missing: nothing of it happened
};

/// Of the variant as a whole.
std::vector<Metric> metrics_of(const VariantRecord& variant);
/// Of one rank. Peaks and ends of all steps' phases and moments, categories, counters, races, rest.
/// Not the timeline: its peaks are those of the phases.
std::vector<Metric> metrics_of(const RankRecord& rank);
/// Peaks of a process on one device of a program.
std::vector<Metric> metrics_of(const DeviceRecord& device);
/// Races and collectives of a process of a program.
std::vector<Metric> metrics_of(const ProcessRecord& process);
/// Bytes by kind of tensor, module and line at a program's highest peak: what explains a change of
/// the peak, and is neither better nor worse by itself.
std::vector<Metric> metrics_of(const AliveAtPeak& alive);
/// What a verdict measured and no metric above holds already; none for the others.
std::optional<Metric> metric_of(const Verdict& verdict);

}  // namespace tidemark
