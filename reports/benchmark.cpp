#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "reports/overview.h"
#include "reports/renderings.h"

namespace tidemark {

std::string benchmark_json(const Report& report) {
  using Json = nlohmann::ordered_json;
  Json benchmarks = Json::array();
  for (const Overview& overview : overviews(report)) {
    for (std::size_t column = 0; column < overview.trials.size(); ++column) {
      const TrialRecord& trial = *overview.trials[column];
      for (const OverviewRow& row : overview.rows) {
        const Cell& cell = row.cells[column];
        if (!cell.measured) continue;
        const std::string name = trial.name() + "/" + row.variant;
        Json entry{{"name", name},
                   {"family_index", benchmarks.size()},
                   {"per_family_instance_index", 0},
                   {"run_name", name},
                   {"run_type", "iteration"},
                   {"repetitions", 1},
                   {"repetition_index", 0},
                   {"threads", 1},
                   {"iterations", trial.steps},
                   {"real_time", static_cast<double>(cell.step_time_ns)},
                   {"cpu_time", static_cast<double>(cell.step_time_ns)},
                   {"time_unit", "ns"}};
        const bool timed = cell.step_time_ns > 0;
        if (!cell.error.empty() || !timed) {
          entry["error_occurred"] = true;
          entry["error_message"] =
              cell.error.empty() ? "not timed: the schedule sets the pace" : cell.error;
        }
        for (Statistic s : {Statistic::allocated, Statistic::active, Statistic::reserved}) {
          entry[std::string("peak_") + name_of(s)] =
              static_cast<double>(cell.peak[static_cast<std::size_t>(s)]);
        }
        benchmarks.push_back(std::move(entry));
      }
    }
  }
  const RunRecord& run = report.run;
  return json_text(Json{{"context",
                         {{"date", run.started},
                          {"host_name", run.host},
                          {"executable", "tidemark"},
                          {"caches", Json::array()},
                          {"tidemark_device", run.device_kind},
                          {"tidemark_profile", run.profile}}},
                        {"benchmarks", benchmarks}});
}

}  // namespace tidemark
