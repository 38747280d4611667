#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "harness/record/json.h"
#include "harness/record/json_writer.h"
#include "harness/record/shared.h"

namespace tidemark {
namespace {
using Json = nlohmann::ordered_json;

void put_report(JsonSink& out, const Report& report, Extent extent) {
  out.open('{');
  out.key("schema"), out.put(kSchema);
  out.key("schema_version"), out.put(kSchemaVersion);
  out.key("run"), JsonWriter(out).value(report.run);
  out.key("trials"), JsonWriter(out, extent).value(report.trials);
  out.key("summary"), JsonWriter(out).value(Summary(report));
  out.close();
}

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

TextMaker head_text(const Report& report) {
  return [&report](const Put& put) {
    const auto value = [](const TrialRecord& trial) {
      return [&trial](JsonSink& out) { JsonWriter(out, Extent::head).value(trial); };
    };
    Sharing sharing;
    for (const TrialRecord& trial : report.trials) value(trial)(sharing.seen());
    GrowingText out(put);
    out += fmt::format(
        "{{\n\"schema\": \"{}\",\n\"schema_version\": \"{}\",\n\"run\": {},\n\"summary\": {}",
        kSchema, kSchemaVersion, line_of(json_of(report.run)), line_of(json_of(Summary(report))));
    const auto list = [&](const char* key, const auto& all, auto write) {
      out += fmt::format(",\n\"{}\": [", key);
      const char* comma = "\n";
      for (const auto& each : all) out += comma, write(each), comma = ",\n";
      out += "\n]";
    };
    list("trials", report.trials,
         [&](const TrialRecord& trial) { sharing.write(out, value(trial)); });
    list("shared", sharing.shared(), [&](const std::string& each) { out += each; });
    out += "\n}\n";
    out.finish();
  };
}

std::string details_text(const VariantRecord& variant) {
  if (variant.ranks.empty()) return "";
  return whole([&](const Put& put) {
    GrowingText text(put);
    JsonLine out(text);
    out.open('{');
    out.key("schema"), out.put("tidemark/details");
    out.key("schema_version"), out.put(kSchemaVersion);
    out.key("name"), out.put(variant.name);
    JsonWriter(out, Extent::details).fields(variant);
    out.key("ranks"), out.open('[');
    for (const RankRecord& rank : variant.ranks) {
      out.open('{'), out.key("rank"), out.put(rank.rank);
      JsonWriter(out, Extent::details).fields(rank);
      out.close();
    }
    out.close();
    out.close();
    text += '\n';
    text.finish();
  });
}

Json to_json(const Report& report, Extent extent) {
  JsonTree out;
  put_report(out, report, extent);
  return out.take();
}

TextMaker report_text(const Report& report, Extent extent) {
  return json_text([&report, extent](JsonSink& out) { put_report(out, report, extent); });
}

std::string json_text(const Report& report, Extent extent) {
  return whole(report_text(report, extent));
}
std::string json_text(const TrialRecord& trial) {
  return whole(json_text(PutJson([&](JsonSink& out) { JsonWriter(out).value(trial); })));
}

}  // namespace tidemark
