#include "harness/fit/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/fit/options.h"
#include "harness/fit/result.h"
#include "harness/fit/runs.h"
#include "harness/fit/torch.h"
#include "reports/fit/text.h"
#include "reports/units.h"

namespace tidemark {
namespace {

/// A change: what it is, and the name by which python/tidemark_changes.py knows it, or the
/// environment variable that makes it. Of those of one group only one can be made.
struct Change {
  const char* what;
  const char* name;
  const char* variable = nullptr;
  const char* value = nullptr;
  int group = 0;
  bool same_numbers = true;  // the program computes what it computed
};

constexpr Change kChanges[] = {
    {"allocator: expandable_segments", "expandable", "PYTORCH_ALLOC_CONF",
     "expandable_segments:True"},
    {"NCCL without recorded streams", "streams", "TORCH_NCCL_AVOID_RECORD_STREAMS", "1"},
    {"zero_grad(set_to_none=True)", "set_to_none"},
    {"optimizer without foreach", "plain_optimizer", nullptr, nullptr, 1},
    {"fused optimizer", "fused_optimizer", nullptr, nullptr, 1},
    {"DDP: gradient_as_bucket_view", "bucket_view"},
    {"Python's garbage collected each step", "collect_garbage"},
    {"recompute every second repeated module", "recompute_half", nullptr, nullptr, 2},
    {"recompute all repeated modules", "recompute_all", nullptr, nullptr, 2},
    {"bf16 autocast", "autocast", nullptr, nullptr, 0, false},
};

Wanted wanted(const FitOptions& fit, const std::vector<const Change*>& changes) {
  Wanted out;
  out.gpu = fit.gpus.front().memory.name;
  out.capacity = kRoom;
  out.room = true;
  std::string names;
  for (const Change* each : changes) {
    if (each->variable != nullptr) {
      out.environment[each->variable] = each->value;
    } else {
      names += (names.empty() ? "" : ",") + std::string(each->name);
    }
    out.label += (out.label.empty() ? "" : " + ") + std::string(each->what);
  }
  if (!names.empty()) out.environment["TIDEMARK_CHANGES"] = names;
  return out;
}

std::string signed_bytes(Bytes bytes) {
  return (bytes < 0 ? "-" : "") + bytes_text(bytes < 0 ? -bytes : bytes);
}

std::string time_text(const FitRun& base, const FitRun& run) {
  if (base.step_ns <= 0 || run.step_ns <= 0) return "not measured";
  return fmt::format("{:.2f}x",
                     static_cast<double>(run.step_ns) / static_cast<double>(base.step_ns));
}

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> row_of(const std::string& what, const FitRun& base, const FitRun& run,
                                const std::string& numbers) {
  if (!ended_well(run)) return {what, "does not run", "", "", "", run.last};
  return {what,
          bytes_text(run.reserved),
          signed_bytes(base.reserved - run.reserved),
          signed_bytes(base.allocated - run.allocated),
          time_text(base, run),
          numbers};
}

/// The changes that save reserved memory, the largest savings first, one of each group.
std::vector<const Change*> best_of(const FitRun& base, const std::vector<FitRun>& runs) {
  std::vector<std::pair<Bytes, const Change*>> savings;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (const Change& change = kChanges[i];
        ended_well(runs[i]) && change.same_numbers && runs[i].reserved < base.reserved)
      savings.emplace_back(base.reserved - runs[i].reserved, &change);
  std::ranges::stable_sort(savings, std::greater<>(), &std::pair<Bytes, const Change*>::first);
  std::vector<const Change*> out;
  for (const auto& [saved, change] : savings)
    if (change->group == 0 || std::ranges::none_of(out, [&](const Change* other) {
          return other->group == change->group;
        }))
      out.push_back(change);
  return out;
}

/// What follows from the base's record without a run.
std::string computed(const FitRun& base) {
  Bytes states = 0;
  if (base.alive)
    for (const AlivePart& part : base.alive->parts)
      if (part.kind == "optimizer state") states += part.bytes;
  if (states == 0) return "";
  return fmt::format(
      "Computed from the record, not run: optimizer states of 8 bits in place of 32 would hold {} "
      "less of the {} that are alive at the peak, before the scales that such an optimizer "
      "keeps.\n",
      bytes_text(states / 4 * 3), bytes_text(states));
}

}  // namespace

int advise_program(int argc, char** argv, const RunRecord& version) {
  FitOptions fit;
  if (const int code = parse_fit(argc, argv, fit); code >= 0) return code;
  Runs runs(fit, version.tidemark + " " + version.git, torch_of(fit));
  std::vector<Wanted> all{wanted(fit, {})};
  for (const Change& change : kChanges) all.push_back(wanted(fit, {&change}));
  std::vector<FitRun> results = runs.run(all);
  if (runs.interrupted() != 0) {
    fmt::print("Interrupted: what has run is kept, and the same command goes on from there.\n");
    return 128 + runs.interrupted();
  }
  const FitRun base = results.front();
  results.erase(results.begin());
  if (!ended_well(base)) {
    fmt::print(stderr, "error: advise: the program itself does not run: {}\n",
               base.unknown.empty() ? base.last : base.unknown);
    return 1;
  }
  Rows rows{
      {"change, each a run", "peak reserved", "saves", "of allocated", "virtual step", "values"}};
  rows.push_back({"the program as it is", bytes_text(base.reserved), "", "", "1.00x", ""});
  std::vector<std::string> without_effect;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Change& change = kChanges[i];
    const bool found = change.variable != nullptr || !results[i].changed.empty();
    if (ended_well(results[i]) && (!found || (results[i].reserved == base.reserved &&
                                              results[i].allocated == base.allocated)))
      without_effect.push_back(change.what + std::string(found ? "" : " (nothing to change)"));
    else
      rows.push_back(row_of(change.what, base, results[i],
                            change.same_numbers ? "the same" : "of less precision"));
  }
  const std::vector<const Change*> best = best_of(base, results);
  if (best.size() > 1) {
    const std::vector<FitRun> together = runs.run({wanted(fit, best)});
    if (!together.empty())
      rows.push_back(
          row_of("together: " + wanted(fit, best).label, base, together.front(), "the same"));
  }
  fmt::print("{}\n", table_text(rows));
  for (std::size_t i = 0; i < without_effect.size(); ++i)
    fmt::print("{}{}", i == 0 ? "Without an effect: " : "; ", without_effect[i]);
  fmt::print("{}{}", without_effect.empty() ? "" : ".\n", computed(base));
  return 0;
}

}  // namespace tidemark
