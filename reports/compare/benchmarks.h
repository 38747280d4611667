// Files of Google Benchmark (JSON): those of `tidemark bench`, benchmark.json of a run, and any
// other's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/record.h"
#include "reports/compare/compare.h"
#include "reports/compare/metric.h"

namespace tidemark {

/// True for the first bytes of such a file.
bool is_benchmarks(std::string_view begin);

struct BenchmarkFigure {
  std::uint32_t metric;  // in Benchmarks::metrics
  double value;
};

struct BenchmarkEntry {
  std::string name;   // without that of an aggregate or a repetition
  std::string error;  // why it has no figures; else empty
  std::vector<BenchmarkFigure> figures;
};

struct Benchmarks {
  RunRecord run;                // what the context says
  std::vector<Metric> metrics;  // each once, without values
  std::vector<BenchmarkEntry> entries;

  std::vector<Metric> metrics_of(const BenchmarkEntry& entry) const;
};

/// The median of a name's repetitions; of a file of aggregates alone their medians. Metrics: time
/// (real_time, ns; none where it is 0), and of the counters that benchmark_row() names all but the
/// percentage. Throws std::runtime_error in one line.
Benchmarks parse_benchmarks(std::string_view text, const std::string& where);

/// Entries of one name held against each other. What one file alone has is missing or fresh.
Comparison compare(const Benchmarks& base, const Benchmarks& fresh, const CompareOptions& options);

}  // namespace tidemark
