#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "reports/json.h"
#include "reports/json_memory_read.h"
#include "reports/json_node.h"
#include "reports/units.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

template <class Enum>
Enum enumerator(const Node& node, std::initializer_list<Enum> all) {
  const std::string name = node.text();
  std::string possible;
  for (Enum e : all) {
    if (name == name_of(e)) return e;
    possible += fmt::format("{}{}", possible.empty() ? "" : ", ", name_of(e));
  }
  node.fail(fmt::format("'{}' is not one of {}", name, possible));
}

template <class Value, class Convert>
std::map<std::string, Value> map(const Node& node, Convert convert) {
  std::map<std::string, Value> out;
  node.members([&](const std::string& key, const Node& item) { out.emplace(key, convert(item)); });
  return out;
}

Setting setting(const Node& node) {
  if (node.value().is_string()) return node.text();
  return node.integer();
}

Phase phase(const Node& node) {
  Phase out;
  out.name = node["name"].text();
  for (Statistic s : kStatistics) {
    const Node level = node[name_of(s)];
    out[s] = {level["peak"].integer(), level["end"].integer()};
  }
  return out;
}

Step step(const Node& node) {
  return {list<Phase>(node["phases"], phase),
          list<Moment>(
              node["moments"],
              [](const Node& m) {
                return Moment{m["name"].text(), m["allocated"].integer(), m["requested"].integer()};
              }),
          list<Call>(node["calls"], [](const Node& c) {
            return Call{c["op"].text(), c["unit"].text()};
          })};
}

Counters counters(const Node& node) {
  Counters out;
  out.num_alloc_retries = node["num_alloc_retries"].integer();
  out.num_ooms = node["num_ooms"].integer();
  out.num_device_alloc = node["num_device_alloc"].integer();
  out.num_device_free = node["num_device_free"].integer();
  out.num_sync_all_streams = node["num_sync_all_streams"].integer();
  out.launches = node["launches"].integer();
  out.synchronisations = node["synchronisations"].integer();
  out.collectives = map<std::int64_t>(node["collectives"], integer);
  return out;
}

Race race(const Node& node) {
  const auto access = [](const Node& a) {
    return Access{a["op"].text(), a["stream"].text(), a.has("span") ? a["span"].integer() : -1};
  };
  return {access(node["first"]), access(node["second"]), node["bytes"].integer(),
          node["explanation"].text()};
}

std::vector<Sample> timeline(const Node& node) {
  const auto time = list<Ns>(node["time"], integer);
  const auto allocated = list<Bytes>(node["allocated"], integer);
  const auto active = list<Bytes>(node["active"], integer);
  const auto reserved = list<Bytes>(node["reserved"], integer);
  if (allocated.size() != time.size() || active.size() != time.size() ||
      reserved.size() != time.size()) {
    node.fail("its columns differ in length");
  }
  std::vector<Sample> out;
  for (std::size_t i = 0; i < time.size(); ++i) {
    out.push_back({time[i], allocated[i], active[i], reserved[i]});
  }
  return out;
}

OutsideOwners owners(const Node& node) {
  if (node.has("unknown")) return {.unknown = node["unknown"].text()};
  return {node["own"].integer(), node["others"].integer(), node["driver"].integer(), ""};
}

RankRecord rank(const Node& node) {
  RankRecord out;
  out.rank = node["rank"].small_integer();
  node["steps"].each([&](const Node& each) {
    const int times = each.has("times") ? each["times"].small_integer() : 1;
    if (times < 1 || times > 100000 || out.steps.size() + static_cast<std::size_t>(times) > 100000)
      each["times"].fail("is no number of steps (from 1 to 100,000 in all)");
    out.steps.insert(out.steps.end(), static_cast<std::size_t>(times), step(each));
  });
  const auto last = out.steps.empty() ? Json::array() : node["steps"].value().back()["phases"];
  if (node["phases"].value() != last) node["phases"].fail("differs from the last of 'steps'");
  node["categories"].members([&](const std::string& name, const Node& c) {
    out.categories.push_back({name, c["peak_share"].integer(), c["end"].integer()});
  });
  out.counters = counters(node["counters"]);
  out.races = list<Race>(node["races"], race);
  out.timeline = timeline(node["timeline"]);
  node["phase_starts"].each([&](const Node& start) {
    out.phase_starts.emplace_back(start["name"].text(), start["time"].integer());
  });
  out.rest_before = node["rest"]["before"].integer();
  out.rest_after = node["rest"]["after"].integer();
  if (node.has("outside_allocator")) out.outside = node["outside_allocator"].integer();
  if (node.has("outside_owners")) out.owners = owners(node["outside_owners"]);
  if (node.has("unheld")) out.unheld = node["unheld"].text();
  if (!node.has("largest")) return out;  // version 1.0
  out.largest = list<AliveBlock>(node["largest"], read_alive);
  out.maps = list<MemoryMap>(node["maps"], read_map);
  out.spans = read_spans(node["spans"]);
  out.trace = read_trace(node["trace"]);
  return out;
}

LossPoint loss(const Node& node) {
  LossPoint out{node["step"].small_integer(), std::nullopt};
  if (!node["hex"].value().is_null()) out.value = node["hex"].hexadecimal();
  const auto decimal = node["value"].number_or_null();
  if (decimal && out.value != decimal) node.fail("'value' and 'hex' are different numbers");
  return out;
}

SweepPoint sweep_point(const Node& node) {
  return {node["ratio"].number(), node["allocated"].integer(), node["active"].integer(),
          node["reserved"].integer(), node["step_time_ns"].integer()};
}

Growth growth(const Node& node) {
  const auto peaks = [](const Node& p) {
    const auto one = [&](const char* name) {
      return p[name].value().is_null() ? std::nullopt : std::optional(p[name].integer());
    };
    return Peaks{one("allocated"), one("active"), one("reserved"), one("resident")};
  };
  return {node["parameter"].text(), node["rank"].small_integer(),
          list<GrowthPoint>(node["points"], [&](const Node& p) {
            return GrowthPoint{p["value"].integer(), peaks(p["predicted"]), peaks(p["measured"])};
          })};
}

std::optional<Timing> timing(const Node& variant) {
  if (!variant.has("timing")) return std::nullopt;
  const Node node = variant["timing"];
  Timing out{node["repetitions"].small_integer(), node["samples"].small_integer(),
             node["median_ns"].integer(),         node["low_ns"].integer(),
             node["high_ns"].integer(),           std::nullopt};
  const Node ratio = node["ratio"];
  if (!ratio.value().is_null())
    out.ratio = {ratio["median"].number(), ratio["lowest"].number(), ratio["highest"].number()};
  return out;
}

std::optional<Fit> fit(const Node& variant) {
  if (!variant.has("fits")) return std::nullopt;
  const Node node = variant["fits"];
  return Fit{node["profile"].text(), node["capacity_bytes"].integer(),
             node["reserved_bytes"].integer()};
}

VariantRecord variant(const Node& node) {
  return {node["name"].text(),
          enumerator(node["role"], {Role::baseline, Role::fixed, Role::control}),
          node["error"].text_or_null(),
          list<LossPoint>(node["loss"], loss),
          list<Ns>(node["step_time_ns"], integer),
          list<RankRecord>(node["ranks"], rank),
          list<SweepPoint>(node["sweep"], sweep_point),
          node.has("gradients") ? list<GradientError>(node["gradients"], read_gradient)
                                : std::vector<GradientError>(),
          node.has("what") ? node["what"].text() : "",
          node.has("growth") ? list<Growth>(node["growth"], growth) : std::vector<Growth>(),
          timing(node),
          node.has("not_run") ? node["not_run"].text() : "",
          fit(node)};
}

Verdict verdict(const Node& node) {
  Verdict out;
  out.name = node["name"].text();
  out.variant = node["variant"].text();
  out.rank = node["rank"].small_integer();
  out.status = enumerator(node["status"], {Status::pass, Status::fail, Status::skip});
  const Node expected = node["expected"];
  out.low = expected["low"].number_or_null();
  out.high = expected["high"].number_or_null();
  out.formula = expected["formula"].text();
  out.values = map<double>(expected["values"], [](const Node& value) {
    return value.number_or_null().value_or(std::numeric_limits<double>::quiet_NaN());
  });
  out.measured = node["measured"].number_or_null();
  out.unit = node["unit"].text();
  out.slack = node["slack"].number_or_null().value_or(std::numeric_limits<double>::infinity());
  out.why = node["why"].text();
  return out;
}

TrialRecord trial(const Node& node) {
  TrialRecord out;
  out.scenario = node["scenario"].text();
  out.size = node["size"].text();
  out.mode = enumerator(node["mode"], {Mode::math, Mode::shapes});
  out.schedule = node["schedule"].text();
  out.ranks = node["ranks"].small_integer();
  out.steps = node["steps"].small_integer();
  out.seed = node["seed"].natural();
  out.params = map<Setting>(node["params"], setting);
  out.skipped = node["skipped"].text_or_null();
  out.variants = list<VariantRecord>(node["variants"], variant);
  out.verdicts = list<Verdict>(node["verdicts"], verdict);
  if (node.has("story")) out.story = node["story"].text();
  if (node.has("not_run")) out.not_run = node["not_run"].text();
  if (node.has("capacity_bytes")) out.capacity = node["capacity_bytes"].integer();
  if (node.has("needs_bytes")) out.needs = node["needs_bytes"].integer();
  if (!node.has("statistic")) return out;  // before version 1.3
  out.statistic = enumerator(node["statistic"], {Statistic::allocated, Statistic::active,
                                                 Statistic::reserved, Statistic::requested});
  out.symbols = list<Symbol>(node["symbols"], [](const Node& each) {
    return Symbol{each["name"].text(), each["what"].text(), each["value"].number_or_null()};
  });
  return out;
}

RunRecord run(const Node& node) {
  RunRecord out;
  out.id = node["id"].text();
  out.started = node["started"].text();
  out.duration_ns = node["duration_ns"].integer();
  out.argv = list<std::string>(node["argv"], text);
  out.tidemark = node["tidemark"].text();
  out.git = node["git"].text();
  out.host = node["host"].text();
  out.device_kind = node["device"]["kind"].text();
  out.profile = node["device"]["profile"].text();
  out.capacity_bytes = node["device"]["capacity_bytes"].integer();
  if (node["device"].has("sharing")) out.sharing = node["device"]["sharing"].text();
  if (node["device"].has("arithmetic")) out.arithmetic = node["device"]["arithmetic"].text();
  out.torch = node["torch"].text();
  out.nccl = node["nccl"].text();
  out.mpi = node["mpi"].text();
  out.env = map<std::string>(node["env"], text);
  if (node["device"].has("profile_bytes"))
    out.profile_bytes = node["device"]["profile_bytes"].integer();
  if (node.has("ended")) out.ended = node["ended"].text();
  out.interrupted = node.has("interrupted");
  out.require_all = node.has("require_all");
  if (node.has("faults_not_happened"))
    out.faults = list<std::string>(node["faults_not_happened"], text);
  if (node.has("trial_ns")) out.trial_ns = list<Ns>(node["trial_ns"], integer);
  return out;
}

void check_version(const Node& root) {
  if (const std::string schema = root["schema"].text(); schema != kSchema) {
    root.fail(fmt::format("it is a '{}', not a '{}'", schema, kSchema));
  }
  const std::string version = root["schema_version"].text(), mine = kSchemaVersion;
  if (version.substr(0, version.find('.')) != mine.substr(0, mine.find('.'))) {
    root.fail(fmt::format(
        "schema version {} where this tidemark reads {}: use the tidemark that wrote it", version,
        mine));
  }
}

// Of files alone: between ranks nobody edits.
void check_passes(const Report& report, const std::string& where) {
  for (const TrialRecord& trial : report.trials) {
    for (const Verdict& v : trial.verdicts) {
      if (v.status != Status::pass || !v.measured) continue;
      if ((!v.low || *v.measured >= *v.low) && (!v.high || *v.measured <= *v.high)) continue;
      throw std::runtime_error(one_line(fmt::format(
          "{}: {} {} rank {}: {} says pass where {} is outside what was expected: the file was "
          "edited",
          where, trial.name(), v.variant, v.rank, v.name, *v.measured)));
    }
  }
}

}  // namespace

Report parse_report(std::string_view text, const std::string& where) {
  nlohmann::ordered_json json;
  try {
    json = Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    const bool cut = e.byte >= text.size();
    throw std::runtime_error(fmt::format(
        "{}: not JSON {} byte {}: {}", where, cut ? "after" : "at", e.byte,
        cut ? "the file is cut off; run again" : "the file was changed or is another one"));
  } catch (const nlohmann::json::exception&) {  // a number that no double can hold
    throw std::runtime_error(
        fmt::format("{}: holds a number that is none of a report: the file was changed", where));
  }
  const Node root(json, where);
  check_version(root);
  Report report{run(root["run"]), list<TrialRecord>(root["trials"], trial)};
  root["summary"]["exit_code"].integer();
  for (const auto& [key, status] : {std::pair{"passed", Status::pass}, {"failed", Status::fail}}) {
    const auto said = root["summary"][key].integer();
    if (said != report.count(status)) {
      root["summary"].fail(fmt::format("says {} {} where the verdicts are {}: the file was edited",
                                       said, key, report.count(status)));
    }
  }
  return report;
}

Report read_report(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "report.json" : path;
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw std::runtime_error(
        fmt::format("{}: cannot be read: give the folder that a run wrote (--out)", file.string()));
  }
  const std::string text(std::istreambuf_iterator<char>(in), {});
  Report report = parse_report(text, file.string());
  check_passes(report, file.string());
  return report;
}

}  // namespace tidemark
