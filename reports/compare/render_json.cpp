#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "reports/compare/render.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

/// NaN and infinity have no place in JSON: their names stand for them.
Json number(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (std::isnan(*value)) return "nan";
  if (std::isinf(*value)) return *value > 0 ? "inf" : "-inf";
  if (std::abs(*value) < 9007199254740992.0 && *value == std::trunc(*value) &&
      !(*value == 0 && std::signbit(*value)))
    return static_cast<std::int64_t>(*value);
  return *value;
}

Json place_json(const Place& place) {
  return {{"trial", place.trial}, {"variant", place.variant}, {"ranks", place.ranks}};
}

Json turn_json(const VerdictChange& turn) {
  Json out{{"effect", name_of(turn.effect)}};
  out.update(place_json(turn.place));
  out.update({{"verdict", turn.name},
              {"others", turn.others},
              {"before", turn.before},
              {"after", turn.after},
              {"why", turn.why}});
  return out;
}

Json change_json(const Change& c) {
  Json out{{"effect", name_of(c.effect)}};
  out.update(place_json(c.place));
  out.update({{"metric", c.metric},
              {"kind", name_of(c.kind)},
              {"worse", name_of(c.worse)},
              {"unit", c.unit},
              {"before", number(c.before)},
              {"after", number(c.after)},
              {"rank", c.rank < 0 ? Json(nullptr) : Json(c.rank)},
              {"step", c.step < 0 ? Json(nullptr) : Json(c.step)},
              {"first_step", c.first_step < 0 ? Json(nullptr) : Json(c.first_step)},
              {"threshold", c.threshold}});
  return out;
}

Json side_json(const Side& side) {
  const RunRecord& run = side.report.run;
  return {{"file", side.name},
          {"id", run.id},
          {"started", run.started},
          {"tidemark", run.tidemark},
          {"git", run.git}};
}

}  // namespace

std::string comparison_json(const Comparison& c, const Side& base, const Side& fresh) {
  Json out{{"schema", "tidemark/comparison"},
           {"schema_version", "1.0"},
           {"base", side_json(base)},
           {"new", side_json(fresh)},
           {"same_run", c.same_run},
           {"comparisons", c.comparisons()},
           {"compared", {{"verdicts", c.verdicts}, {"metrics", c.metrics}}},
           {"thresholds", c.thresholds},
           {"verdicts", Json::array()},
           {"metrics", Json::array()},
           {"missing", c.missing},
           {"new_ones", c.fresh},
           {"made_differently", c.differently},
           {"summary",
            {{"regressions", c.regressions()},
             {"improvements", c.count(Effect::improvement)},
             {"changed", c.count(Effect::changed)},
             {"within_thresholds", c.within},
             {"missing", c.missing.size()},
             {"new_ones", c.fresh.size()},
             {"exit_code", c.exit_code()}}}};
  for (const VerdictChange& turn : c.turns) out["verdicts"].push_back(turn_json(turn));
  for (const Change& change : c.changes) out["metrics"].push_back(change_json(change));
  return json_text(out);
}

}  // namespace tidemark
