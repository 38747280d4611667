#include "harness/fit/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/fit/changes.h"
#include "harness/fit/computed.h"
#include "harness/fit/options.h"
#include "harness/fit/result.h"
#include "harness/fit/torch.h"
#include "harness/fit/written.h"
#include "harness/print.h"
#include "harness/record/fit_fields.h"
#include "harness/record/json_writer.h"
#include "reports/fit/advice.h"

namespace tidemark {
namespace {

constexpr const char* kSaves = "saves";

/// Why a run has not ended well: the program's own last line, if it failed.
std::string why_not(const FitRun& run) {
  return run.exit_code != 0 && !run.last.empty() ? run.last : run.unknown;
}

AdviceRow row_of(const Wanted& wanted, const FitRun& base, const FitRun& run, bool same_numbers) {
  AdviceRow row;
  row.change = wanted.label;
  row.how = "exact";
  row.values = same_numbers ? "the same" : "of less precision";
  row.run = run;
  row.run->alive.reset();  // of the unchanged program alone
  if (!ended_well(run)) {
    row.outcome = "does not run";
    row.why = why_not(run);
    return row;
  }
  row.reserved_saved = base.reserved - run.reserved;
  row.allocated_saved = base.allocated - run.allocated;
  const bool saves = row.reserved_saved > 0 || row.allocated_saved > 0;
  row.outcome = saves ? kSaves : "does not save";
  return row;
}

/// The changes that save reserved memory, the largest savings first, one of each group.
std::vector<const ProgramChange*> best_of(const std::vector<AdviceRow>& rows) {
  std::vector<std::pair<Bytes, const ProgramChange*>> savings;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (const ProgramChange& change = all_changes()[i];
        change.same_numbers && rows[i].reserved_saved > 0)
      savings.emplace_back(rows[i].reserved_saved, &change);
  std::ranges::stable_sort(savings, std::greater<>(),
                           &std::pair<Bytes, const ProgramChange*>::first);
  std::vector<const ProgramChange*> out;
  for (const auto& [saved, change] : savings)
    if (change->group == 0 || std::ranges::none_of(out, [&](const ProgramChange* other) {
          return other->group == change->group;
        }))
      out.push_back(change);
  return out;
}

/// True if each change lets the program fit: by its run with room, or, where that reserved more
/// than the GPU has and allocated less, by a run at the GPU's size.
void judge(Runs& runs, std::vector<AdviceRow>& rows, std::vector<Wanted> wanted, const FitGpu& gpu,
           Bytes capacity) {
  std::vector<Wanted> close;
  std::vector<AdviceRow*> undecided;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    AdviceRow& row = rows[i];
    if (row.outcome == "does not run") continue;
    row.fits = row.run->reserved > capacity ? "no" : shares(*row.run, capacity) ? "" : "yes";
    if (row.run->reserved <= capacity || row.run->allocated > capacity) continue;
    undecided.push_back(&row);
    close.push_back(std::move(wanted[i]));
    close.back().gpu = gpu.name, close.back().capacity = capacity, close.back().room = false;
  }
  const std::vector<FitRun> results = runs.run(close);
  for (std::size_t i = 0; i < undecided.size(); ++i)
    undecided[i]->fits = i >= results.size()            ? ""
                         : shares(results[i], capacity) ? ""
                         : ended_well(results[i])       ? "yes"
                         : results[i].ooms > 0          ? "no"
                                                        : "";
}

}  // namespace

Advice advise(Runs& runs, const FitValues& values, const FitGpu& gpu, const std::string& room) {
  const Wanted unchanged = run_with_room(values, room);
  std::vector<Wanted> wanted;
  for (const ProgramChange& change : all_changes()) wanted.push_back(changed(unchanged, {&change}));
  std::vector<Wanted> all{unchanged};
  all.insert(all.end(), wanted.begin(), wanted.end());
  const std::vector<FitRun> results = runs.run(all);
  Advice advice;
  advice.values = values, advice.gpu = gpu.name;
  if (results.size() < all.size()) return advice;  // interrupted
  const FitRun& base = advice.run = results.front();
  advice.capacity = gpu.capacity(base.nccl);
  if (!ended_well(base)) return advice;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ProgramChange& change = all_changes()[i];
    advice.rows.push_back(row_of(wanted[i], base, results[i + 1], change.same_numbers));
    if (AdviceRow& row = advice.rows.back();
        change.variable == nullptr && row.run->changed.empty() && row.run->exit_code == 0)
      row.outcome = "nothing to change";
  }
  if (const auto best = best_of(advice.rows); best.size() > 1) {
    wanted.push_back(changed(unchanged, best));
    wanted.back().label = "together: " + wanted.back().label;
    if (const auto together = runs.run({wanted.back()}); !together.empty())
      advice.rows.push_back(row_of(wanted.back(), base, together.front(), true));
  }
  advice.rows.insert(advice.rows.begin(), row_of(unchanged, base, base, true));
  wanted.insert(wanted.begin(), unchanged);
  judge(runs, advice.rows, wanted, gpu, advice.capacity);
  advice.fits = advice.rows.front().fits;
  advice.rows.erase(advice.rows.begin());
  for (AdviceRow& row : computed_rows(base)) advice.rows.push_back(std::move(row));
  return advice;
}

int advise_program(int argc, char** argv, const RunRecord& version) {
  FitOptions fit;
  if (const int code = parse_fit(argc, argv, fit); code >= 0) return code;
  const FitGpu& gpu = fit.gpus.front().memory;
  Runs runs(fit, version.tidemark + " " + version.git, torch_of(fit));
  const Advice advice = advise(runs, {}, gpu, gpu.name);
  if (runs.interrupted() != 0) {
    print(stdout, "Interrupted: what has run is kept, and the same command goes on from there.\n");
    return 128 + runs.interrupted();
  }
  if (!ended_well(advice.run)) {
    print(stderr, "error: advise: the program itself does not run: {}\n", why_not(advice.run));
    return 1;
  }
  print(stdout, "{}", advice_text(advice));
  if (!fit.out.empty()) write_out(fit.out, document_of("tidemark/advise", json_of(advice)));
  return 0;
}

}  // namespace tidemark
