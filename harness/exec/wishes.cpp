#include "harness/exec/wishes.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/exec/outcome.h"
#include "harness/memory/places.h"
#include "harness/record/budget.h"
#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/compare/compare.h"
#include "reports/compare/overlay.h"
#include "reports/compare/render.h"
#include "reports/program/finding.h"

namespace tidemark {

namespace {

constexpr const char* kPeak = "memory/reserved/limit";
constexpr const char* kFits = "memory/reserved/fits/";  // and the GPU
constexpr const char* kGrowth = "growth/none";
constexpr const char* kRetries = "memory/retries/limit";
constexpr const char* kRaces = "race/none";
constexpr const char* kCompare = "/compare";  // after the metric

/// True if `measured` is at most `most`; `why` is the sentence if it is not.
Verdict at_most(const std::string& name, const DeviceAt& at, std::int64_t measured,
                std::int64_t most, const char* unit, const std::string& why) {
  Verdict out{.name = name, .variant = at.name(), .rank = at.process->rank.value_or(0)};
  out.status = measured > most ? Status::fail : Status::pass;
  out.high = static_cast<double>(most), out.measured = static_cast<double>(measured);
  out.unit = unit;
  if (out.status == Status::fail) out.why = why;
  return out;
}

/// "reserves 2 MiB", "takes 266 MiB, with 264 MiB outside PyTorch's allocator".
std::string took_text(const DeviceRecord& device) {
  const std::string outside = outside_text(device);
  return fmt::format("{} {}{}", outside.empty() ? "reserves" : "takes", bytes_text(device.all()),
                     outside.empty() ? "" : ", with " + outside);
}

Verdict unknown_fit(int rank, const GpuCapacity& gpu, const std::string& why) {
  Verdict out = not_known(rank, fmt::format("--fits {}: {}", gpu.name, why));
  out.name = kFits + gpu.name;
  return out;
}

/// "program under calibrated process 1: memory/active: 6.4 GiB -> 8.7 GiB (+2.3 GiB, +35.2%)
/// [threshold memory=0]": of what is no number of bytes, as `tidemark compare` says it.
std::string grown_text(const Change& change) {
  if (change.unit != "bytes" || !change.before || !change.after) return sentence(change);
  const double by = *change.after - *change.before;
  const auto text = [](double bytes) { return bytes_text(static_cast<Bytes>(bytes)); };
  return fmt::format("{}{}{}: {}: {} -> {} (+{}{}) [threshold {}]", change.place.trial,
                     change.place.variant.empty() ? "" : " ", change.place.variant, change.metric,
                     text(*change.before), text(*change.after), text(by),
                     *change.before > 0 ? fmt::format(", +{:.3g}%", 100 * by / *change.before) : "",
                     change.threshold);
}

/// Whether each GPU that several processes used at the same time has room for all of them.
void add_shared_fits(std::vector<Verdict>& out, const ProgramRecord& program,
                     const std::vector<GpuCapacity>& gpus) {
  const bool calls = calls_nccl(program);
  for (const GpuCapacity& gpu : gpus)
    for (const SharedGpu& shared : program.shared)
      if (const Bytes most = gpu.bytes - (calls ? gpu.nccl : 0); shared.bytes > most)
        out.push_back(unknown_fit(0, gpu, "unknown: " + shared_text(shared, most)));
}

Verdict fits(const DeviceAt& at, const GpuCapacity& gpu, const std::string& place) {
  const Bytes most = gpu.bytes - (at.process->collectives.empty() ? 0 : gpu.nccl);
  const Bytes took = at.device->all();
  if (at.device->ooms > 0)
    return unknown_fit(at.process->rank.value_or(0), gpu,
                       place + " ran out of memory: what it needs is more than its GPU has");
  const std::string begin = fmt::format("--fits {}: {} ", gpu.name, place);
  return at_most(
      kFits + gpu.name, at, took, most, "bytes",
      fmt::format("{}{}, {} more than the {} that PyTorch can have{}", begin, took_text(*at.device),
                  bytes_text(took - most), bytes_text(most),
                  at.device->allocated > most ? ""
                                              : "; less is allocated, so it may fit there: --gpu " +
                                                    gpu.name + " runs it at that size"));
}

}  // namespace

GpuCapacity capacity_of(const std::string& gpu) {
  if (const std::string wrong = check_linked_settings(gpu, ""); !wrong.empty())
    throw UsageError("exec: --fits " + wrong.substr(std::string("--gpu ").size()));
  const LinkedGpu linked = linked_gpu();
  return {gpu, linked.capacity, linked.nccl};
}

Verdict no_growth(const ProgramRecord& program, const HighestPeak& peak) {
  constexpr std::int64_t kLeast = 5;  // of which the last two do not count (growth.h)
  Verdict out{.name = kGrowth, .status = Status::pass, .high = 0, .measured = 0};
  out.unit = "bytes";
  std::int64_t steps = 0;
  for (const MemoryPicture& picture : peak.pictures)
    for (const MemoryPicture::Phase& phase : picture.phases) steps = std::max(steps, phase.step);
  if (const StepGrowth* most = worst_growth(peak)) {
    out.status = Status::fail, out.measured = most->rate();
    out.why = "--no-growth: " + growth_text(*most, 0);
  } else if (program.exit_code != 0 || steps < kLeast) {
    out.status = Status::fail, out.measured.reset();
    out.why =
        program.exit_code != 0
            ? "--no-growth: unknown: the program did not end well"
            : fmt::format("--no-growth: unknown: the program made {}, and at least {} show it",
                          plural(steps, "step"), kLeast);
  }
  return out;
}

std::vector<Verdict> verdicts_of(const ProgramRecord& program, const Wishes& wishes) {
  std::vector<Verdict> out;
  if (!wishes.any()) return out;
  if (program.processes.empty())
    out.push_back(
        not_known(0, "unknown: no process has recorded CUDA memory, so nothing was measured"));
  for (const ProcessRecord& process : program.processes) {
    const int rank = process.rank.value_or(0);
    if (process.devices.empty())
      out.push_back(not_known(rank, "unknown: " + unrecorded(process)));
    else if (!process.ended)
      out.push_back(not_known(rank, fmt::format("unknown: {} was killed {}: its peaks are those "
                                                "until then",
                                                name_of(process), process.last)));
  }
  add_shared_fits(out, program, wishes.fits);
  for (const DeviceAt& at : devices_of(program)) {
    const std::string place = place_of(*at.process, *at.device);
    if (wishes.max_peak) {
      const Bytes took = at.device->all(), most = *wishes.max_peak;
      out.push_back(
          at_most(kPeak, at, took, most, "bytes",
                  fmt::format("--max-peak: {} {}, {} more than {}", place, took_text(*at.device),
                              bytes_text(took - most), bytes_text(most))));
    }
    for (const GpuCapacity& gpu : wishes.fits) out.push_back(fits(at, gpu, place));
    if (wishes.no_retries)
      out.push_back(at_most(
          kRetries, at, at.device->retries, 0, "retries",
          fmt::format(
              "--no-retries: the allocator of {} freed its cached memory and tried again {}", place,
              plural(at.device->retries, "time"))));
    if (wishes.no_races && at.device == &at.process->devices.front()) {
      const std::vector<Race>& races = at.process->races;
      out.push_back(at_most(kRaces, at, std::ssize(races), 0, "races",
                            fmt::format("--no-races: {} has {}: {}", name_of(*at.process),
                                        plural(std::ssize(races), "race"),
                                        races.empty() ? "" : races.front().explanation)));
    }
  }
  return out;
}

std::string flag_of(const std::string& verdict) {
  if (verdict.starts_with(kFits)) return "--fits " + verdict.substr(std::string(kFits).size());
  for (const auto& [name, flag] : {std::pair{kPeak, "--max-peak"},
                                   {kRetries, "--no-retries"},
                                   {kRaces, "--no-races"},
                                   {kGrowth, "--no-growth"}})
    if (verdict == name) return flag;
  return verdict.ends_with(kCompare) ? "--compare" : "";
}

std::vector<FailedCheck> failed_checks(const std::vector<Verdict>& verdicts) {
  const auto beyond = [](const Verdict& one) {
    return one.measured.value_or(0) - one.high.value_or(0);
  };
  std::vector<FailedCheck> out;
  std::vector<std::int64_t> counts;
  for (const Verdict& one : verdicts) {
    if (one.status != Status::fail) continue;
    const std::string flag = flag_of(one.name);
    const auto known = std::ranges::find(out, flag, &FailedCheck::flag);
    if (flag.empty() || known == out.end()) {
      out.push_back({"", flag, &one}), counts.push_back(1);
      continue;
    }
    ++counts[static_cast<std::size_t>(known - out.begin())];
    if (beyond(one) > beyond(*known->worst)) known->worst = &one;
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].line = out[i].worst->why +
                  (counts[i] > 1 ? fmt::format(" (the worst of {})", exact(counts[i])) : "");
  return out;
}

std::vector<std::string> passed_checks(const std::vector<Verdict>& verdicts, bool outside) {
  std::vector<std::string> out;
  if (std::ranges::find(verdicts, kKnown, &Verdict::name) != verdicts.end()) return out;
  std::vector<std::string> names;  // in their order
  for (const Verdict& one : verdicts)
    if (std::ranges::find(names, one.name) == names.end()) names.push_back(one.name);
  for (const std::string& name : names) {
    const Verdict* highest = nullptr;
    bool holds = true;
    for (const Verdict& one : verdicts) {
      if (one.name != name) continue;
      holds = holds && one.status == Status::pass;
      if (highest == nullptr || one.measured > highest->measured) highest = &one;
    }
    const std::string flag = flag_of(name);
    if (!holds || flag.empty()) continue;
    const auto figure = [](double bytes) { return bytes_text(static_cast<Bytes>(bytes)); };
    out.push_back(name.starts_with("memory/reserved/")
                      ? fmt::format("{}: {} are {} at most, of {}", flag,
                                    figure(*highest->measured), outside ? "taken" : "reserved",
                                    figure(*highest->high))
                      : fmt::format("{}: none", flag));
  }
  return out;
}

Report read_base(const std::filesystem::path& path) {
  Report base;
  const Budget budget;
  try {
    base = read_report(path);
  } catch (const std::runtime_error& error) {
    throw UsageError(std::string("exec: --compare ") + error.what());
  }
  const auto has_peak = [](const TrialRecord& trial) {
    return trial.program && std::ranges::any_of(trial.program->processes, &ProcessRecord::ended);
  };
  if (std::ranges::none_of(base.trials, has_peak))
    throw UsageError("exec: --compare " + path.string() +
                     ": no process of a program has ended with a peak: give what exec --out or "
                     "--report wrote");
  return base;
}

PeakRegressions grown(const Report& base, const Report& now,
                      const std::vector<Threshold>& thresholds,
                      const std::filesystem::path& base_path, const std::filesystem::path& folder) {
  constexpr std::size_t kMost = 8;
  CompareOptions options;
  options.thresholds = thresholds;
  const Comparison comparison = compare(base, now, options);
  PeakRegressions out;
  for (const Change& change : comparison.changes) {
    if (change.kind != Kind::memory || change.effect != Effect::regression) continue;
    const auto rank = change.rank < 0 ? std::nullopt : std::optional(change.rank);
    out.failures.push_back({.name = change.metric + kCompare,
                            .variant = name_of(rank, change.place.variant),
                            .rank = rank.value_or(0),
                            .status = Status::fail,
                            .high = change.before,
                            .measured = change.after,
                            .unit = change.unit,
                            .why = "--compare: " + grown_text(change)});
  }
  const Side before{"base", base, records_beside(base_path)}, after{"new", now, folder};
  out.causes = text_of(causes(comparison, before, after, kMost));
  out.changes = changes_of(comparison, before, after);
  const auto unknown = [&](int rank, const std::string& why) {
    out.failures.push_back(not_known(rank, "--compare: unknown: " + why));
  };
  for (const TrialRecord& trial : now.trials)
    for (const ProcessRecord& process : trial.program->processes)
      if (process.devices.empty()) unknown(process.rank.value_or(0), unrecorded(process));
  for (const std::string& missing : comparison.missing)
    unknown(0, missing + " has no peak in this run");
  for (const std::string& fresh : comparison.fresh)
    unknown(0, fresh + " has no peak in the other run");
  return out;
}

}  // namespace tidemark
