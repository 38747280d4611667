#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "harness/memory/testing/made_record.h"
#include "harness/record/gzip.h"
#include "reports/testing/sample.h"
#include "reports/testing/sample_parts.h"

namespace tidemark {
namespace {

RunRecord run() {
  return {.id = "3f9a1c",
          .started = "2026-01-02T03:04:05Z",
          .tidemark = "0.1.0",
          .git = "0123456789ab",
          .host = "example",
          .torch = "2.11.0",
          .nccl = "2.28.9",
          .mpi = "Open MPI 4.1.4",
          .argv = {"tidemark", "run", "fsdp_prefetch", "--schedule", "all", "--capacity=64G"},
          .duration_ns = 1'234'000'000,
          .device_kind = "virtual",
          .profile = "h100-80g",
          .capacity_bytes = Bytes{80} << 30,
          .env = {{"NCCL_ALGO", "Ring"}, {"TIDEMARK_GPU", "h100-80g"}}};
}

RankRecord rank(int index, Bytes peak, Bytes active) {
  RankRecord out;
  out.rank = index;
  Phase forward{"forward", {}};
  forward[Statistic::allocated] = {peak, 3 * kMiB};
  forward[Statistic::active] = {active, 3 * kMiB};
  forward[Statistic::reserved] = {20 * kMiB, 20 * kMiB};
  forward[Statistic::requested] = {peak - 12, 3 * kMiB - 12};
  out.steps = {{{forward}, {{"unit 0", peak, peak}}}};
  out.categories = {{MemoryKind::parameters, {3 * kMiB, 3 * kMiB}},
                    {MemoryKind::activations, {peak - 3 * kMiB, 0}}};
  out.counters.num_device_alloc = 1;
  out.counters.collectives = {{"all_gather", 4}};
  out.timeline = {{0, 3 * kMiB, 3 * kMiB, 20 * kMiB},
                  {1500, peak, active, 20 * kMiB},
                  {3000, 3 * kMiB, 3 * kMiB, 20 * kMiB}};
  out.phase_starts = {{"forward", 0}};
  out.rest_before = out.rest_after = 3 * kMiB;
  add_memory(out, kMiB, active > peak);
  if (active > peak) add_race(out);
  return out;
}

VariantRecord variant(const char* name, Role role, Bytes active) {
  VariantRecord out;
  out.name = name;
  out.role = role;
  out.loss = {{0, 0.1}, {1, 1.0 / 3}};
  out.step_time_ns = {5'000'000, 4'000'000};
  out.ranks = {rank(0, 5 * kMiB, active), rank(1, 4 * kMiB, active - kMiB)};
  out.gradients = sample_gradients(role, role == Role::baseline ? false : active > 5 * kMiB);
  out.what = role == Role::baseline ? "buffers are recorded on a stream" : "a stash until the wait";
  return out;
}

Verdict memory(const char* name, int index, double expected, double measured) {
  Verdict out;
  out.name = "memory/form/active/forward";
  out.variant = name;
  out.rank = index;
  out.status = expected == measured ? Status::pass : Status::fail;
  out.low = out.high = expected;
  out.formula = "S + 2*U";
  out.values = {{"S", 3.0 * kMiB}, {"U", (expected - 3.0 * kMiB) / 2}};
  out.measured = measured;
  if (expected != measured) out.why = "1.00 MiB more than the formula says";
  return out;
}

TrialRecord trial(const char* schedule, Bytes active) {
  TrialRecord out;
  out.scenario = "fsdp_prefetch";
  out.size = "smoke";
  out.schedule = schedule;
  out.mode = Mode::math;
  out.ranks = 2;
  out.steps = 2;
  out.seed = 7;
  out.params = {{"hidden", 64}, {"layers", 4}};
  out.story = "What is kept, why nobody needs it, where it was seen.";
  out.seen = {{"example/training#12", "https://github.com/example/training/issues/12",
               "buffers that wait for a stream"},
              {"own", "", "a second reading of it"}};
  out.published = {{"example/training#12", "a 7B model, layout not given", "40 %", "record_stream",
                    "stash", active, 5 * kMiB},
                   {"example/training#12",
                    "the same on a GPU of 40 GB",
                    "50 %",
                    "record_stream",
                    "rate_limiter",
                    active,
                    {}}};
  out.statistic = Statistic::active;
  out.symbols = {
      {"U", "parameters of one block, gathered", {MemoryKind::gathered_parameters}, 838860800.0},
      {"rest",
       "what stays between steps",
       {MemoryKind::parameters, MemoryKind::optimizer_state},
       std::nullopt}};
  out.variants = {variant("record_stream", Role::baseline, active),
                  variant("stash", Role::fixed, 5 * kMiB)};
  out.verdicts = {
      memory("record_stream", 0, static_cast<double>(active), static_cast<double>(active)),
      memory("stash", 0, 5.0 * kMiB, 5.0 * kMiB),
      memory("stash", 1, 5.0 * kMiB, active > 5 * kMiB ? 6.0 * kMiB : 5.0 * kMiB)};
  return out;
}

}  // namespace

Report small_report() {
  const TrialRecord skipped{.scenario = "fsdp_prefetch",
                            .size = "seed",
                            .schedule = "instant",
                            .ranks = 2,
                            .skipped = "size seed runs in shapes only"};
  return {run(), {trial("instant", 5 * kMiB), trial("lagging", 9 * kMiB), skipped}};
}

Report gpu_report() {
  Report report = small_report();
  report.run.device_kind = "cuda";
  report.run.profile = "an example, no GPU";
  report.run.sharing = "ranks 0, 1 on one GPU: each with its part of 90 % of the memory";
  report.run.arithmetic =
      "TF32 off, products of 16-bit numbers added up in fp32, by the GPU's kernels";
  report.trials[0].schedule = "device";
  auto& variants = report.trials[0].variants;
  variants[0].timing = Timing{3, 6, 4'000'000, 3'900'000, 4'300'000, Timing::Ratio{1, 1, 1}};
  variants[1].timing =
      Timing{3, 6, 3'000'000, 2'900'000, 3'100'000, Timing::Ratio{0.75, 0.5, 1.25}};
  for (TrialRecord& one : report.trials)
    for (VariantRecord& variant : one.variants)
      for (RankRecord& rank : variant.ranks) {
        rank.outside = 500 * kMiB + rank.rank;
        rank.owners = OutsideOwners{480 * kMiB, 20 * kMiB + rank.rank, 550 * kMiB, ""};
      }
  report.trials[0].variants[1].ranks[0].owners->own += kMiB;
  report.trials[0].variants[0].ranks[1].owners = {.unknown = "process 7 is not among them"};
  for (VariantRecord& variant : report.trials[1].variants)
    for (RankRecord& rank : variant.ranks) rank.owners = {.unknown = "there is no <NVML>"};
  report.trials[1].variants[0].step_time_ns.clear();
  report.trials[1].variants[0].ranks[1].unheld = "the host took 90 ms, the device 60 ms";
  return report;
}

Report cut_report() {
  Report report = small_report();
  report.run.profile_bytes = 18 * kMiB;
  report.run.ended = "rank 1 was killed (signal 9) in fsdp_prefetch/stash";
  const std::string before = "the run ended before it: " + report.run.ended;
  TrialRecord &done = report.trials[0], &cut = report.trials[1], &lost = report.trials[2];
  done.capacity = Bytes{1} << 40;
  done.needs = 20 * kMiB;
  for (RankRecord& rank : done.variants[1].ranks)
    rank.steps[0].phases[0][Statistic::reserved] = {16 * kMiB, 16 * kMiB};
  for (VariantRecord& variant : done.variants) variant.fit = fit_of(report.run, variant);
  cut.not_run = "the run ended in it: " + report.run.ended;
  cut.verdicts.clear();
  const VariantRecord stopped{.name = "stash",
                              .role = Role::fixed,
                              .error = "the ranks ended early (rank 1 was killed (signal 9))"};
  cut.variants[1] = stopped;
  const VariantRecord control{.name = "no_reference", .role = Role::control, .not_run = before};
  cut.variants.push_back(control);
  lost.skipped.clear();
  lost.not_run = before;
  for (VariantRecord one : {stopped, control}) {
    one.error.clear();
    one.not_run = before;
    lost.variants.push_back(one);
  }
  return report;
}

Report hostile_report() {
  const std::string evil =
      "</script><img src=x onerror=\"document.title='broken'\">|`*]]>&'\xe2\x80\xa8\n../../x";
  Report report = small_report();
  report.run.host = report.run.argv[2] = report.run.env["NCCL_ALGO"] = evil;
  for (TrialRecord& t : report.trials) {
    t.scenario = t.size = t.story = evil;
    if (!t.skipped.empty()) t.skipped = evil;
    t.seen = {{evil, "https://" + evil, evil}, {"own", "", evil}};
    t.published = {{evil, evil, evil, evil + "record_stream", evil + "stash", 2, 1}};
    for (VariantRecord& v : t.variants) {
      v.name = evil + v.name;
      v.error = v.what = evil;
      for (GradientError& g : v.gradients) g.name = evil;
      for (RankRecord& r : v.ranks) {
        r.steps[0].phases[0].name = r.phase_starts[0].first = evil;
        r.races = {{{evil, evil, 0}, {evil, evil, 1}, 1, evil}};
        r.largest[0].op = r.largest[0].dtype = r.largest[0].stream = evil;
        r.spans.streams[1] = r.spans.names[0] = r.spans.names[1] = evil;
        MadeRecord record;
        record.phase(evil, 0);
        record.event(AllocatorAction::segment_alloc, 1 << 30, 2 * kMiB, 1);
        record.event(AllocatorAction::alloc, 1 << 30, kMiB, 2, 0, evil, evil);
        record.label(1 << 30, MemoryKind::activations, evil);
        r.memory = packed_bytes(record.bytes());
      }
    }
    for (Verdict& v : t.verdicts) {
      v.name += evil;
      v.variant = evil + v.variant;
      v.formula = v.why = v.unit = evil;
    }
  }
  return report;
}

std::string first_difference(const std::string& a, const std::string& b) {
  if (a == b) return "";
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const std::size_t from = at - std::min<std::size_t>(at, 40);
  return "at " + std::to_string(at) + ": '" + a.substr(from, 80) + "' and '" + b.substr(from, 80) +
         "'";
}

ScratchFolder::ScratchFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "tidemark_reports_XXXXXX").string();
  if (!mkdtemp(path.data())) throw std::runtime_error(path + ": cannot be made");
  path_ = path;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tidemark
