// Parts of report.json that other JSON holds in the same form.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// Null for what is not finite; whole numbers without a point.
nlohmann::ordered_json number(double value);
nlohmann::ordered_json number(const std::optional<double>& value);
nlohmann::ordered_json text_or_null(const std::string& text);

nlohmann::ordered_json phase_json(const Phase& phase);
nlohmann::ordered_json counters_json(const Counters& counters);
nlohmann::ordered_json race_json(const Race& race);
nlohmann::ordered_json categories_json(const std::vector<Category>& categories);
nlohmann::ordered_json phase_starts_json(const RankRecord& rank);
/// Adds what only a real GPU tells of a rank, where it has.
void add_gpu_facts(nlohmann::ordered_json& out, const RankRecord& rank);
/// Adds whether and on what a trial ran.
void add_course(nlohmann::ordered_json& out, const TrialRecord& trial);
/// Verdicts and trials by how they went, each counted once.
nlohmann::ordered_json summary_json(const Report& report);
nlohmann::ordered_json loss_json(const LossPoint& point);
/// The ranks' form is the caller's, and what is to be said of the gradients.
nlohmann::ordered_json variant_json(const VariantRecord& variant, nlohmann::ordered_json ranks);

// json_memory.cpp: what of a step is many figures, as columns.
nlohmann::ordered_json alive_json(const AliveBlock& block);
nlohmann::ordered_json map_json(const MemoryMap& map);
nlohmann::ordered_json spans_json(const Spans& spans);
nlohmann::ordered_json trace_json(const EventTrace& trace);
nlohmann::ordered_json gradient_json(const GradientError& gradient);

}  // namespace tidemark
