#include "reports/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "harness/record/json_sink.h"
#include "harness/record/units.h"
#include "reports/overview.h"
#include "reports/renderings.h"
#include "reports/saving.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

/// On the rank that has most, in the last step.
double most_a_step(const VariantRecord& variant, std::map<std::string, std::int64_t> Step::*which) {
  std::int64_t most = 0;
  for (const RankRecord& rank : variant.ranks) {
    std::int64_t sum = 0;
    if (!rank.steps.empty())
      for (const auto& [operation, amount] : rank.steps.back().*which) sum += amount;
    most = std::max(most, sum);
  }
  return static_cast<double>(most);
}

double share_of(const Saving& saving) {
  return *saving.before == 0
             ? 0
             : 100 * static_cast<double>(saving.saved()) / static_cast<double>(*saving.before);
}

std::string label_of(const Saving& saving) {
  if (!saving.before) return "not compared: no baseline ran";
  const std::string of = fmt::format(" of {}", name_of(saving.statistic));
  const auto bytes = [](Bytes amount) {
    const ByteUnit unit = saving_unit(amount);
    return fmt::format("{} {}", unit(amount), unit.name);
  };
  if (saving.saved() == 0)
    return "saves nothing" + of + ": at its highest the step is as the baseline's";
  if (saving.saved() < 0) return fmt::format("needs {} more{}", bytes(-saving.saved()), of);
  return fmt::format("saves {}{} ({:.3g} %)", bytes(saving.saved()), of, share_of(saving));
}

/// That of the trial, or of the one beside it that has a clock; 0: none has.
Ns step_time(const OverviewRow& row, std::size_t column) {
  if (const Ns own = row.cells[column].step_time_ns; own > 0) return own;
  const auto timed =
      std::ranges::find_if(row.cells, [](const Cell& cell) { return cell.step_time_ns > 0; });
  return timed == row.cells.end() ? 0 : timed->step_time_ns;
}

}  // namespace

std::string benchmark_name(const TrialRecord& trial, const std::string& variant) {
  const std::string mode = trial.mode == Mode::shapes ? "" : std::string(name_of(trial.mode)) + "/";
  return fmt::format("{}/{}/r{}/{}{}/{}", trial.scenario, trial.size, trial.ranks, mode,
                     trial.schedule, variant);
}

std::string benchmark_clock(const std::string& device_kind) {
  return device_kind == "cuda"
             ? "a step's, by CUDA events, under the device's own schedule"
             : "a step's virtual time under schedule calibrated, by the model of the GPU; no "
               "computer's clock";
}

BenchmarkRow benchmark_row(const TrialRecord& trial, const VariantRecord& variant) {
  BenchmarkRow row;
  for (const Statistic s :
       {Statistic::requested, Statistic::allocated, Statistic::active, Statistic::reserved})
    row.counters.emplace_back(fmt::format("peak_{}", name_of(s)),
                              static_cast<double>(worst_peak(variant, s)));
  row.label = name_of(variant.role);
  double saved = 0, percent = 0;  // every row has all counters: the library's CSV wants it
  for (const Saving& saving : savings_of(trial)) {
    if (saving.fix != variant.name) continue;
    row.label = label_of(saving);
    if (saving.before) saved = static_cast<double>(saving.saved()), percent = share_of(saving);
  }
  row.counters.emplace_back("saved", saved);
  row.counters.emplace_back("saved_percent", percent);
  row.counters.emplace_back("collectives", most_a_step(variant, &Step::collectives));
  row.counters.emplace_back("collective_bytes", most_a_step(variant, &Step::collective_bytes));
  std::int64_t retries = 0;
  std::string unheld;
  for (const RankRecord& rank : variant.ranks) {
    retries = std::max(retries, rank.counters.num_alloc_retries);
    if (!rank.unheld.empty()) unheld = rank.unheld;
  }
  if (!unheld.empty()) row.label += "; not held back: " + unheld;
  row.counters.emplace_back("retries", static_cast<double>(retries));
  return row;
}

namespace {

void put_rows(const Report& report, JsonSink& out) {
  std::size_t rows = 0;
  for (const Overview& overview : overviews(report)) {
    for (std::size_t column = 0; column < overview.trials.size(); ++column) {
      const TrialRecord& trial = *overview.trials[column];
      for (const OverviewRow& row : overview.rows) {
        const Cell& cell = row.cells[column];
        const VariantRecord* variant = variant_in(trial, row.variant);
        if (!cell.measured || variant == nullptr || variant->role == Role::control) continue;
        const std::string name = benchmark_name(trial, row.variant) + kManualTime;
        const Ns time = step_time(row, column);
        Json entry{{"name", name},
                   {"family_index", rows++},
                   {"per_family_instance_index", 0},
                   {"run_name", name},
                   {"run_type", "iteration"},
                   {"repetitions", 1},
                   {"repetition_index", 0},
                   {"threads", 1},
                   {"iterations", trial.steps},
                   {"real_time", 1e-6 * static_cast<double>(time)},
                   {"cpu_time", 1e-6 * static_cast<double>(time)},
                   {"time_unit", "ms"}};
        if (!cell.error.empty()) {
          entry["error_occurred"] = true;
          entry["error_message"] = cell.error;
        }
        BenchmarkRow figures = benchmark_row(trial, *variant);
        for (auto& [counter, value] : figures.counters) entry[counter] = value;
        if (time == 0) figures.label += "; not timed: no trial with a clock ran";
        entry["label"] = figures.label;
        out.put_all(entry);
      }
    }
  }
}

}  // namespace

TextMaker benchmark_json(const Report& report) {
  return json_text(PutJson([&report](JsonSink& out) {
    const RunRecord& run = report.run;
    out.open('{');
    out.key("context");
    out.put_all({{"date", run.started},
                 {"host_name", run.host},
                 {"executable", "tidemark"},
                 {"caches", Json::array()},
                 {"tidemark", run.tidemark + " (" + run.git + ")"},
                 {"tidemark_device", run.device_kind + " " + run.profile},
                 {"tidemark_time", benchmark_clock(run.device_kind)}});
    out.key("benchmarks"), out.open('[');
    put_rows(report, out);
    out.close();
    out.close();
  }));
}

}  // namespace tidemark
