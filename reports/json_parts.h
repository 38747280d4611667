// Parts of the record that report.html holds in the form of report.json.
#pragma once

#include "harness/record/json_writer.h"

namespace tidemark {

using JsonPart = nlohmann::ordered_json;

inline JsonPart number(const std::optional<double>& value) { return json_of(value); }
inline JsonPart phase_json(const Phase& phase) { return json_of(phase); }
inline JsonPart counters_json(const Counters& counters) { return json_of(counters); }
inline JsonPart race_json(const Race& race) { return json_of(race); }
inline JsonPart summary_json(const Report& report) { return json_of(Summary(report)); }
inline JsonPart categories_json(const RankRecord& rank) {
  return json_of(rank, {"categories"})["categories"];
}
inline JsonPart phase_starts_json(const RankRecord& rank) { return json_of(rank.phase_starts); }
/// Adds what only a real GPU tells of a rank, where it has.
inline void add_gpu_facts(JsonPart& out, const RankRecord& rank) {
  out.update(json_of(rank, {"outside_allocator", "outside_owners", "unheld"}));
}
/// Adds whether and on what a trial ran.
inline void add_course(JsonPart& out, const TrialRecord& trial) {
  out.update(json_of(trial, {"not_run", "capacity_bytes", "needs_bytes"}));
}
/// All of a variant but its ranks, whose form is the caller's, and its gradients.
inline JsonPart variant_json(const VariantRecord& variant, JsonPart ranks) {
  JsonPart out = json_of(variant, {"name", "role", "error", "loss", "step_time_ns", "sweep",
                                   "growth", "what", "timing", "not_run", "fits"});
  out["ranks"] = std::move(ranks);
  return out;
}

}  // namespace tidemark
