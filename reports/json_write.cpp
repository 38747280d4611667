#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/json.h"
#include "reports/json_parts.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

// Whole numbers stay whole: byte counts in a formula's values read as bytes, not as 8.388608e+08.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) < 9007199254740992.0 && value == std::trunc(value) &&
      !(value == 0 && std::signbit(value))) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

namespace {

template <class Items, class Convert>
Json array(const Items& items, Convert convert) {
  Json out = Json::array();
  for (const auto& item : items) out.push_back(convert(item));
  return out;
}

template <class Map>
Json object(const Map& map) {
  Json out = Json::object();
  for (const auto& [key, value] : map) out[key] = value;
  return out;
}

Json settings(const Settings& all) {
  Json out = Json::object();
  for (const auto& [name, value] : all)
    std::visit([&, key = name](const auto& is) { out[key] = is; }, value);
  return out;
}

}  // namespace

Json phase_json(const Phase& phase) {
  Json out{{"name", phase.name}};
  for (Statistic s : kStatistics) {
    out[name_of(s)] = {{"peak", phase[s].peak}, {"end", phase[s].end}};
  }
  return out;
}

namespace {

Json step_json(const Step& step, std::size_t times) {
  return {
      {"times", times},
      {"phases", array(step.phases, phase_json)},
      {"moments",
       array(
           step.moments,
           [](const Moment& m) {
             return Json{{"name", m.name}, {"allocated", m.allocated}, {"requested", m.requested}};
           })},
      {"calls", array(step.calls, [](const Call& c) {
         return Json{{"op", c.op}, {"unit", c.unit}};
       })}};
}

// Steps that are all the same are written once: most of a long run's are.
Json steps_json(const std::vector<Step>& steps) {
  Json out = Json::array();
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t next = i + 1;
    while (next < steps.size() && steps[next] == steps[i]) ++next;
    out.push_back(step_json(steps[i], next - i));
    i = next;
  }
  return out;
}

}  // namespace

Json counters_json(const Counters& c) {
  return {{"num_alloc_retries", c.num_alloc_retries},       {"num_ooms", c.num_ooms},
          {"num_device_alloc", c.num_device_alloc},         {"num_device_free", c.num_device_free},
          {"num_sync_all_streams", c.num_sync_all_streams}, {"launches", c.launches},
          {"synchronisations", c.synchronisations},         {"collectives", object(c.collectives)}};
}

Json race_json(const Race& race) {
  const auto access = [](const Access& a) {
    return Json{{"op", a.op}, {"stream", a.stream}, {"span", a.span}};
  };
  return {{"first", access(race.first)},
          {"second", access(race.second)},
          {"bytes", race.bytes},
          {"explanation", race.explanation}};
}

Json categories_json(const std::vector<Category>& categories) {
  Json out = Json::object();
  for (const Category& c : categories) out[c.name] = {{"peak_share", c.peak_share}, {"end", c.end}};
  return out;
}

Json phase_starts_json(const RankRecord& rank) {
  return array(rank.phase_starts, [](const auto& start) {
    return Json{{"name", start.first}, {"time", start.second}};
  });
}

Json loss_json(const LossPoint& point) {
  if (!point.value) return {{"step", point.step}, {"value", nullptr}, {"hex", nullptr}};
  return {{"step", point.step},
          {"value", std::isfinite(*point.value) ? Json(*point.value) : Json(nullptr)},
          {"hex", fmt::format("{:a}", *point.value)}};
}

Json sweep_json(const SweepPoint& p) {
  return {{"ratio", p.ratio},
          {"allocated", p.allocated},
          {"active", p.active},
          {"reserved", p.reserved},
          {"step_time_ns", p.step_time_ns}};
}

Json growth_json(const Growth& growth) {
  const auto peaks = [](const Peaks& p) {
    const auto one = [](const std::optional<Bytes>& bytes) {
      return bytes ? Json(*bytes) : Json(nullptr);
    };
    return Json{{"allocated", one(p.allocated)},
                {"active", one(p.active)},
                {"reserved", one(p.reserved)},
                {"resident", one(p.resident)}};
  };
  return {{"parameter", growth.parameter},
          {"rank", growth.rank},
          {"points", array(growth.points, [&](const GrowthPoint& p) {
             return Json{{"value", p.value},
                         {"predicted", peaks(p.predicted)},
                         {"measured", peaks(p.measured)}};
           })}};
}

namespace {

Json timing_json(const Timing& t) {
  Json out{{"repetitions", t.repetitions},
           {"samples", t.samples},
           {"median_ns", t.median},
           {"low_ns", t.low},
           {"high_ns", t.high},
           {"ratio", nullptr}};
  if (t.ratio)
    out["ratio"] = {{"median", number(t.ratio->median)},
                    {"lowest", number(t.ratio->lowest)},
                    {"highest", number(t.ratio->highest)}};
  return out;
}

}  // namespace

void add_gpu_facts(Json& out, const RankRecord& rank) {
  if (rank.outside) out["outside_allocator"] = *rank.outside;
  if (rank.owners && !rank.owners->unknown.empty())
    out["outside_owners"] = {{"unknown", rank.owners->unknown}};
  else if (rank.owners)
    out["outside_owners"] = {{"own", rank.owners->own},
                             {"others", rank.owners->others},
                             {"driver", rank.owners->driver}};
  if (!rank.unheld.empty()) out["unheld"] = rank.unheld;
}

Json variant_json(const VariantRecord& variant, Json ranks) {
  Json out{{"name", variant.name},
           {"role", name_of(variant.role)},
           {"error", text_or_null(variant.error)},
           {"loss", array(variant.loss, loss_json)},
           {"step_time_ns", variant.step_time_ns},
           {"ranks", std::move(ranks)},
           {"sweep", array(variant.sweep, sweep_json)},
           {"growth", array(variant.growth, growth_json)},
           {"what", variant.what}};
  if (variant.timing) out["timing"] = timing_json(*variant.timing);
  if (!variant.not_run.empty()) out["not_run"] = variant.not_run;
  if (variant.fit)
    out["fits"] = {{"profile", variant.fit->profile},
                   {"capacity_bytes", variant.fit->capacity},
                   {"reserved_bytes", variant.fit->reserved},
                   {"fits", variant.fit->fits()}};
  return out;
}

namespace {

// Columns: thousands of samples stay four lines.
Json timeline_json(const std::vector<Sample>& samples) {
  return {{"time", array(samples, [](const Sample& s) { return s.time; })},
          {"allocated", array(samples, [](const Sample& s) { return s.allocated; })},
          {"active", array(samples, [](const Sample& s) { return s.active; })},
          {"reserved", array(samples, [](const Sample& s) { return s.reserved; })}};
}

Json rank_json(const RankRecord& rank) {
  Json out{
      {"rank", rank.rank},
      {"phases", rank.steps.empty() ? Json::array() : array(rank.steps.back().phases, phase_json)},
      {"categories", categories_json(rank.categories)},
      {"counters", counters_json(rank.counters)},
      {"races", array(rank.races, race_json)},
      {"rest", {{"before", rank.rest_before}, {"after", rank.rest_after}}},
      {"steps", steps_json(rank.steps)},
      {"phase_starts", phase_starts_json(rank)},
      {"timeline", timeline_json(rank.timeline)},
      {"largest", array(rank.largest, alive_json)},
      {"maps", array(rank.maps, map_json)},
      {"spans", spans_json(rank.spans)},
      {"trace", trace_json(rank.trace)}};
  add_gpu_facts(out, rank);
  return out;
}

Json verdict_json(const Verdict& verdict) {
  Json values = Json::object();
  for (const auto& [name, value] : verdict.values) values[name] = number(value);
  return {{"name", verdict.name},
          {"variant", verdict.variant},
          {"rank", verdict.rank},
          {"status", name_of(verdict.status)},
          {"expected",
           {{"low", number(verdict.low)},
            {"high", number(verdict.high)},
            {"formula", verdict.formula},
            {"values", values}}},
          {"measured", number(verdict.measured)},
          {"unit", verdict.unit},
          {"slack", number(verdict.slack)},
          {"why", verdict.why}};
}

Json symbol_json(const Symbol& symbol) {
  return {{"name", symbol.name}, {"what", symbol.what}, {"value", number(symbol.value)}};
}

Json trial_json(const TrialRecord& trial) {
  Json out{{"scenario", trial.scenario},
          {"size", trial.size},
          {"mode", name_of(trial.mode)},
          {"schedule", trial.schedule},
          {"ranks", trial.ranks},
          {"steps", trial.steps},
          {"seed", trial.seed},
          {"params", settings(trial.params)},
          {"skipped", text_or_null(trial.skipped)},
          {"variants", array(trial.variants,
                             [](const VariantRecord& v) {
                               Json out = variant_json(v, array(v.ranks, rank_json));
                               out["gradients"] = array(v.gradients, gradient_json);
                               return out;
                             })},
          {"verdicts", array(trial.verdicts, verdict_json)},
          {"story", trial.story},
          {"statistic", name_of(trial.statistic)},
          {"symbols", array(trial.symbols, symbol_json)}};
  add_course(out, trial);
  return out;
}

}  // namespace

void add_course(Json& out, const TrialRecord& trial) {
  if (!trial.not_run.empty()) out["not_run"] = trial.not_run;
  if (trial.capacity != 0) out["capacity_bytes"] = trial.capacity;
  if (trial.needs) out["needs_bytes"] = *trial.needs;
}

Json summary_json(const Report& report) {
  return {{"passed", report.count(Status::pass)},
          {"failed", report.count(Status::fail)},
          {"skipped", report.count(Status::skip)},
          {"trials",
           {{"planned", report.trials.size()},
            {"finished", report.count(Course::finished)},
            {"skipped", report.count(Course::skipped)},
            {"cut_short", report.count(Course::cut_short)},
            {"not_run", report.count(Course::not_run)}}},
          {"exit_code", report.exit_code()}};
}

namespace {

Json run_json(const RunRecord& run) {
  Json out{{"id", run.id},
           {"started", run.started},
           {"duration_ns", run.duration_ns},
           {"argv", run.argv},
           {"tidemark", run.tidemark},
           {"git", run.git},
           {"host", run.host},
           {"device",
            {{"kind", run.device_kind},
             {"profile", run.profile},
             {"capacity_bytes", run.capacity_bytes}}},
           {"torch", run.torch},
           {"nccl", run.nccl},
           {"mpi", run.mpi},
           {"env", object(run.env)}};
  if (!run.sharing.empty()) out["device"]["sharing"] = run.sharing;
  if (!run.arithmetic.empty()) out["device"]["arithmetic"] = run.arithmetic;
  if (run.profile_bytes != 0) out["device"]["profile_bytes"] = run.profile_bytes;
  if (!run.ended.empty()) out["ended"] = run.ended;
  if (run.interrupted) out["interrupted"] = true;
  if (run.require_all) out["require_all"] = true;
  if (!run.faults.empty()) out["faults_not_happened"] = run.faults;
  if (!run.trial_ns.empty()) out["trial_ns"] = run.trial_ns;
  return out;
}

}  // namespace

Json to_json(const Report& report) {
  return {{"schema", kSchema},
          {"schema_version", kSchemaVersion},
          {"run", run_json(report.run)},
          {"trials", array(report.trials, trial_json)},
          {"summary", summary_json(report)}};
}

std::string json_text(const Report& report) { return json_text(to_json(report)); }

}  // namespace tidemark
