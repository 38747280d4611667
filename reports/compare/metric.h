// Every figure that a run recorded, under a name, with the direction in which it gets worse.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// Kind of a metric, the most important to a reader first; thresholds are given by kind.
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
  std::optional<double> scale = {};  // what a change is compared with to say how large it is; none:
                                     // the value before
  bool counted = false;              // an absent one is 0, not missing: nothing of it happened
};

/// Metrics of the variant as a whole.
std::vector<Metric> metrics_of(const VariantRecord& variant);
/// Metrics of one rank: peaks and ends of all steps' phases and moments, categories, counters,
/// races, rest. The timeline is left out: its peaks are those of the phases.
std::vector<Metric> metrics_of(const RankRecord& rank);
/// Peaks of a process on one device of a program.
std::vector<Metric> metrics_of(const DeviceRecord& device);
/// Races and collectives of a process of a program.
std::vector<Metric> metrics_of(const ProcessRecord& process);
/// Bytes by kind of tensor, module and line at a program's highest peak: what explains a change of
/// the peak, and is neither better nor worse by itself.
std::vector<Metric> metrics_of(const AliveAtPeak& alive);
/// The metric that a verdict measured, if no metric above has it already.
std::optional<Metric> metric_of(const Verdict& verdict);

}  // namespace tidemark
