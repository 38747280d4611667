#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "harness/record/json.h"
#include "harness/record/json_writer.h"
#include "harness/record/shared.h"

namespace tidemark {
namespace {
using Json = nlohmann::ordered_json;
}  // namespace

Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) < 9007199254740992.0 && value == std::trunc(value) &&
      !(value == 0 && std::signbit(value))) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Summary::Summary(const Report& report)
    : passed(report.count(Status::pass)),
      failed(report.count(Status::fail)),
      skipped(report.count(Status::skip)),
      trials{static_cast<int>(report.trials.size()), report.count(Course::finished),
             report.count(Course::skipped), report.count(Course::cut_short),
             report.count(Course::not_run)},
      exit_code(report.exit_code()) {}

std::vector<const Verdict*> in_order(const std::vector<Verdict>& all) {
  std::unordered_map<std::string, std::size_t> places;
  std::vector<std::pair<std::size_t, const Verdict*>> ordered;
  for (const Verdict& v : all)
    ordered.emplace_back(places.try_emplace(v.variant + '\n' + v.name, places.size()).first->second,
                         &v);
  std::ranges::stable_sort(ordered, [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->rank) < std::pair(b.first, b.second->rank);
  });
  std::vector<const Verdict*> out;
  for (const auto& [place, verdict] : ordered) out.push_back(verdict);
  return out;
}

void put_in_order(std::vector<Verdict>& all) {
  std::vector<Verdict> out;
  out.reserve(all.size());
  for (const Verdict* each : in_order(all))
    out.push_back(std::move(all[static_cast<std::size_t>(each - all.data())]));
  all = std::move(out);
}

std::string head_text(const Report& report) {
  Json trials = json_of(report.trials, Extent::head);
  Json shared = share(trials);
  std::string out = fmt::format(
      "{{\n\"schema\": \"{}\",\n\"schema_version\": \"{}\",\n\"run\": {},\n\"summary\": {}",
      kSchema, kSchemaVersion, line_of(json_of(report.run)), line_of(json_of(Summary(report))));
  for (const auto& [key, list] : {std::pair{"trials", &trials}, {"shared", &shared}}) {
    out += fmt::format(",\n\"{}\": [", key);
    const char* comma = "\n";
    for (const Json& each : *list) out += comma + line_of(each), comma = ",\n";
    out += "\n]";
  }
  return out + "\n}\n";
}

std::string details_text(const VariantRecord& variant) {
  if (variant.ranks.empty()) return "";
  Json ranks = Json::array();
  for (const RankRecord& rank : variant.ranks) {
    ranks.push_back({{"rank", rank.rank}});
    ranks.back().update(json_of(rank, Extent::details));
  }
  Json out{
      {"schema", "tidemark/details"}, {"schema_version", kSchemaVersion}, {"name", variant.name}};
  out.update(json_of(variant, Extent::details));
  out["ranks"] = std::move(ranks);
  return line_of(out) + '\n';
}

Json to_json(const Report& report, Extent extent) {
  return {{"schema", kSchema},
          {"schema_version", kSchemaVersion},
          {"run", json_of(report.run)},
          {"trials", json_of(report.trials, extent)},
          {"summary", json_of(Summary(report))}};
}

std::string json_text(const TrialRecord& trial) { return json_text(json_of(trial)); }
std::string json_text(const Report& report, Extent extent) {
  return json_text(to_json(report, extent));
}

}  // namespace tidemark
