#include <fmt/format.h>

#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/json.h"
#include "harness/record/json_reader.h"
#include "harness/record/one_line.h"

namespace tidemark {
namespace {

void check_version(const Node& root) {
  if (const std::string schema = root["schema"].text(); schema != kSchema) {
    root.fail(fmt::format("it is a '{}', not a '{}'", schema, kSchema));
  }
  const std::string version = root["schema_version"].text(), mine = kSchemaVersion;
  const std::string major = version.substr(0, version.find('.'));
  if (major != "1" && major != "2" && major != mine.substr(0, mine.find('.'))) {
    root.fail(fmt::format(
        "schema version {} where this tidemark reads 1.x, 2.x and {}: use the tidemark that wrote "
        "it",
        version, mine));
  }
}

// Only files can have been edited; records between ranks cannot.
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

/// Before version 3 programs had a list of their own, and verdicts that failed were sentences.
TrialRecord program_of_version_2(const Node& node) {
  Mode mode{};
  JsonReader::read(node["mode"], mode);
  TrialRecord trial = program_trial({}, mode, node["schedule"].text(), 1);
  JsonReader::read(node, *trial.program);
  if (node.has("alive")) JsonReader::read(node["alive"], trial.alive.emplace());
  node["failures"].each([&](const Node& sentence) {
    trial.verdicts.push_back({.name = "run", .status = Status::fail, .why = sentence.text()});
  });
  return trial;
}

JsonDocument parsed(std::string_view text, const std::string& where) {
  try {
    return JsonDocument(text);
  } catch (const NotJson& fault) {
    const char* why = "";
    if (fault.fault == NotJson::Fault::cut_off) why = ": the file is cut off; run again";
    if (fault.fault == NotJson::Fault::syntax) why = ": the file was changed or is another one";
    if (fault.fault == NotJson::Fault::number) why = "; the file was edited";
    throw std::runtime_error(fmt::format("{}: {}{}", where, fault.what(), why));
  }
}

}  // namespace

TrialRecord parse_trial(std::string_view text, const std::string& where) {
  const JsonDocument json = parsed(text, where);
  TrialRecord trial;
  JsonReader::read(Node(json.root(), where), trial);
  return trial;
}

Report parse_report(std::string_view text, const std::string& where,
                    const std::function<void(TrialRecord&)>& each) {
  const JsonDocument json = parsed(text, where);
  const Node plain(json.root(), where);
  check_version(plain);
  const auto shared = json.root().find("shared");
  if (shared) plain["shared"].need(shared->is_array(), "an array");
  const Node root(json.root(), where, shared);
  Report report;
  JsonReader::read(plain["run"], report.run);
  root["trials"].each([&](const Node& node) {
    JsonReader::read(node, report.trials.emplace_back());
    if (each) each(report.trials.back());
  });
  plain["summary"]["exit_code"].integer();
  for (const auto& [key, status] : {std::pair{"passed", Status::pass}, {"failed", Status::fail}}) {
    const auto stored = plain["summary"][key].integer();
    if (stored != report.count(status)) {
      plain["summary"].fail(fmt::format("says {} {} where the verdicts are {}: the file was edited",
                                        stored, key, report.count(status)));
    }
  }
  if (plain.has("programs"))
    plain["programs"].each(
        [&](const Node& node) { report.trials.push_back(program_of_version_2(node)); });
  return report;
}

void add_details(VariantRecord& variant, std::string_view text, const std::string& where) {
  const JsonDocument json = parsed(text, where);
  const Node root(json.root(), where);
  if (root["schema"].text() != "tidemark/details" || root["name"].text() != variant.name)
    root.fail(fmt::format("these are not the details of {}", variant.name));
  JsonReader mine(root, Extent::details);
  visit(variant, mine);
  std::size_t at = 0;
  root["ranks"].each([&](const Node& node) {
    if (at >= variant.ranks.size() || node["rank"].small_integer() != variant.ranks[at].rank)
      node.fail("is not a rank of report.json");
    JsonReader of_rank(node, Extent::details);
    visit(variant.ranks[at++], of_rank);
  });
}

std::string unfinished_in(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "report.json")) return "";
  for (const auto& [unfinished, of] : {std::pair{folder / kJobFolder / "job", "job"},
                                       {folder / kUnfinished, "run"},
                                       {folder / kTests, "pytest"}})
    if (std::filesystem::exists(unfinished))
      return fmt::format(
          "{} has the records of a {} that has not written its report: if the {} has ended, write "
          "it by tidemark report {}",
          folder.string(), of, of, shell_word(folder));
  return "";
}

Report read_report(const std::filesystem::path& path,
                   const std::function<void(TrialRecord&)>& each) {
  const auto file = std::filesystem::is_directory(path) ? path / "report.json" : path;
  if (const std::string why = unfinished_in(path); !why.empty()) throw std::runtime_error(why);
  const std::string text = read_bytes(file, "the folder that a run wrote (--out)");
  Report report = parse_report(text, file.string(), each);
  check_passes(report, file.string());
  return report;
}

}  // namespace tidemark
