#include "harness/cli/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/cli/session_files.h"
#include "harness/record/json.h"
#include "harness/record/lock.h"
#include "harness/record/write.h"
#include "harness/run/runner.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

void replace(const fs::path& path, const std::string& text) {
  const fs::path fresh = path.string() + ".new";  // a rank may be killed while it writes
  std::error_code ignored;
  try {
    write_bytes(fresh, text);
  } catch (const std::runtime_error&) {  // a full disk: what was there stays
    fs::remove(fresh, ignored);
    return;
  }
  fs::rename(fresh, path, ignored);
}

}  // namespace

TrialRecord record_of(const PlannedTrial& planned) {
  TrialRecord record = record_of(*planned.scenario, planned.trial);
  record.skipped = planned.unfit;
  record.capacity = planned.capacity;
  record.needs = planned.needs;
  if (!planned.unfit.empty()) return record;
  record.not_run = "the run ended before it";
  for (const auto& variant : planned.scenario->variants) {
    if (std::ranges::find(planned.variants, variant.name) == planned.variants.end()) continue;
    VariantRecord one;
    one.name = variant.name;
    one.role = variant.role;
    one.what = variant.what;
    one.not_run = record.not_run;
    record.variants.push_back(std::move(one));
  }
  return record;
}

Checkpoint::Checkpoint(fs::path session, const World& world)
    : session_(std::move(session)), world_(world) {
  if (session_.empty()) return;
  static Held alive;  // locked until this process ends
  alive = lock_file(session_ / fmt::format("{}{}", kAlive, world.rank()), LOCK_EX | LOCK_NB);
}

void Checkpoint::write(const Report& report, const std::string& name) const {
  if (!session_.empty()) replace(session_ / name, json_text(report));
}

void Checkpoint::plan(const Report& all) const { write(all, kPlan); }

void Checkpoint::begin(std::size_t trial) {
  trial_ = trial;
  if (!world_.leads() || session_.empty()) return;
  const auto [first, count] =
      world_.alone() ? std::pair(world_.rank(), 1) : std::pair(0, world_.size());
  replace(session_ / kAt, fmt::format("{} {} {}\n", trial, first, count));
}

void Checkpoint::add(const VariantRecord& variant) const {
  TrialRecord part;
  part.variants.push_back(variant);
  write({{}, {part}}, name_of_part(trial_, variant.name, world_.rank()));
}

void Checkpoint::end(std::size_t index, const TrialRecord& trial) const {
  if (session_.empty()) return;
  write({{}, {trial}}, name_of_trial(index));
  std::error_code ignored;
  for (const auto& variant : trial.variants)
    for (int rank = 0; rank < trial.ranks; ++rank)
      fs::remove(session_ / name_of_part(index, variant.name, rank), ignored);
}

}  // namespace tidemark
