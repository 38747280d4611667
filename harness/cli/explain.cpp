// tidemark explain FILE...: what memory snapshots of a program say, the answer first, and what
// would have fitted. The allocator is asked by tidemark_scenarios, which links PyTorch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/files.h"
#include "harness/memory/edit.h"
#include "harness/memory/settings.h"
#include "harness/print.h"
#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/program/changes.h"
#include "reports/program/explanation.h"
#include "reports/program/snapshot_page.h"
#include "reports/table.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ExplainArguments {
  std::vector<std::string> files, settings, edits;
  std::optional<std::size_t> device;
  std::string gpu, capacity, report;
  std::size_t top = 10;
  Output output;
};

/// The answers of the program that links PyTorch; throws std::runtime_error in one line.
Json asked(const ExplainedDevice& of, const Json& cases) {
  const char* absent = std::getenv("TIDEMARK_NO_SCENARIOS");  // by the wheel's command
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "tidemark_scenarios";
  if (absent != nullptr && *absent != 0) throw std::runtime_error(absent);
  if (!fs::exists(program))
    throw std::runtime_error(
        "this installation has no PyTorch to ask; build tidemark from its source");
  std::string words;
  for (const std::string& word :
       {program.string(), std::string("snapshot"), std::string("what-if"), of.file,
        std::string("--device"), std::to_string(of.device.device), std::string("--cases"),
        cases.dump()})
    words += shell_word(word) + " ";
  FILE* pipe = popen((words + "2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error(program.string() + " cannot be started");
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t size = std::fread(piece.data(), 1, piece.size(), pipe))
    text.append(piece.data(), size);
  const int status = pclose(pipe);
  Json out = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (status == 0 && out.is_array() && out.size() == cases.size()) return out;
  while (text.ends_with('\n')) text.pop_back();
  text = text.substr(text.rfind('\n') + 1);
  if (text.starts_with("error: ")) text = text.substr(7);
  if (text.starts_with(of.file + ": ")) text = text.substr(of.file.size() + 2);
  throw std::runtime_error(text.empty() ? "the program that asks PyTorch's allocator ended early"
                                        : one_line(text));
}

/// Bytes that PyTorch asks of the device for a block of `wanted` bytes.
Bytes asked_for(Bytes wanted, bool expandable) {
  constexpr Bytes kMiB = 1 << 20;
  const auto rounded = [&](Bytes unit) { return (wanted + unit - 1) / unit * unit; };
  if (wanted <= kMiB) return 2 * kMiB;
  if (expandable) return rounded(20 * kMiB);
  return wanted < 10 * kMiB ? 20 * kMiB : rounded(2 * kMiB);
}

/// What the process could have where memory ran out; 0: not known.
Bytes capacity_of(const ExplainedDevice& of) {
  const auto& oom = of.device.oom;
  if (!oom) return 0;
  if (oom->request && oom->request->limit > 0) return oom->request->limit;
  // If the device had room for the request, the process was held back by a limit of its own.
  const bool expandable = of.settings.starts_with("expandable_segments:True");
  if (oom->device_free >= asked_for(oom->wanted, expandable)) return 0;
  return oom->held.reserved + oom->device_free;
}

/// Cheapest first: settings, then what needs an edit of the program.
std::vector<std::pair<std::string, Json>> cases_of(const ExplainArguments& a,
                                                   const ExplainedDevice& of, Bytes capacity) {
  std::vector<std::pair<std::string, Json>> out;
  const auto add = [&](const std::string& name, const std::string& settings,
                       const std::vector<std::string>& edits) {
    out.emplace_back(
        name,
        Json{{"settings", settings}, {"edits", edits}, {"gpu", a.gpu}, {"capacity", capacity}});
  };
  add("as recorded", "", {});
  for (const std::string& setting : a.settings) add(setting, setting, {});
  for (const std::string& edit : a.edits) add(edit, "", {edit});
  if (!a.settings.empty() || !a.edits.empty()) return out;
  for (const char* setting :
       {"expandable_segments:True", "max_split_size_mb:512", "roundup_power2_divisions:4"})
    if (of.settings.find(std::string(setting).substr(0, std::string(setting).find(':'))) ==
        std::string::npos)
      add(setting, setting, {});
  if (of.next_line.empty()) return out;
  const auto is_backward = [](const PhasePeak& one) { return one.name == "backward"; };
  if (std::ranges::any_of(of.device.phases, is_backward))
    add(of.next_line + " until backward", "", {of.next_line + " until backward"});
  add(of.next_line + " x0.5", "", {of.next_line + " x0.5"});
  return out;
}

ChangesTried tried(const ExplainArguments& a, const ExplainedDevice& of) {
  Bytes capacity = a.capacity.empty() ? 0 : *parse_bytes(a.capacity);
  if (capacity == 0 && a.gpu.empty()) capacity = capacity_of(of);
  const auto cases = cases_of(a, of, capacity);
  Json words = Json::array();
  for (const auto& [name, one] : cases) words.push_back(one);
  ChangesTried out;
  try {
    const Json answers = asked(of, words);
    for (std::size_t i = 0; i < cases.size(); ++i) out.emplace_back(cases[i].first, answers[i]);
  } catch (const std::runtime_error& error) {
    for (const auto& [name, one] : cases) out.emplace_back(name, Json{{"refused", error.what()}});
  }
  return out;
}

std::string text_of(const std::vector<ExplainedDevice>& all, const ChangesTried& changes) {
  std::string out;
  for (const std::string& line : explanation(all)) out += line + "\n";
  if (const auto rows = devices_table(all); !rows.empty()) out += "\n" + table_text(rows, "  ");
  if (changes.empty()) return out;
  const ExplainedDevice& first = *first_of(all);
  out += fmt::format("\nwhat would have fitted{}", all.size() > 1 ? ", of " + first.name : "");
  if (const std::string why = common_refusal(changes); !why.empty())
    return out + ": not known: " + why + "\n";
  out += "\n" + table_text(changes_table(changes, first), "  ");
  for (const std::string& line : assumptions(changes, first)) out += "  * " + line + "\n";
  return out;
}

Json json_of(const std::vector<ExplainedDevice>& all, const ChangesTried& changes) {
  const ExplainedDevice* first = first_of(all);
  Json out{
      {"schema", "tidemark/explanation"}, {"schema_version", "1.0"},  {"first", first->name},
      {"lines", explanation(all)},        {"devices", Json::array()}, {"changes", Json::array()}};
  for (const ExplainedDevice& one : all) {
    const DeviceSummary& d = one.device;
    out["devices"].push_back({{"file", one.file},
                              {"name", one.name},
                              {"device", d.device},
                              {"peak_active", d.peak.active},
                              {"peak_reserved", one.most_reserved},
                              {"phase", one.phase},
                              {"out_of_memory", d.oom ? Json{{"wanted", d.oom->wanted},
                                                             {"device_free", d.oom->device_free},
                                                             {"reserved", d.oom->held.reserved},
                                                             {"active", d.oom->held.active},
                                                             {"site", d.oom->site}}
                                                      : Json(nullptr)},
                              {"limits", one.limits}});
  }
  for (const auto& [name, answer] : changes) {
    Json row{{"change", name}, {"text", answer_text(answer, *first)}};
    row.update(answer);
    out["changes"].push_back(std::move(row));
  }
  return out;
}

int explain_files(const ExplainArguments& a) {
  a.output.check();
  if (!a.capacity.empty() && !parse_bytes(a.capacity))
    throw std::runtime_error(not_bytes("--capacity", a.capacity));
  for (const std::string& edit : a.edits) parse_edit(edit);
  if (!a.report.empty() && fs::exists(a.report) && !fs::is_directory(a.report))
    throw std::runtime_error(fmt::format("--report {}: is a file; give a folder", a.report));
  std::vector<ExplainedDevice> all;
  for (const std::string& file : a.files) {
    Snapshot snapshot = read_snapshot(file);
    for (const std::string& setting : a.settings) changed_settings(snapshot, setting);
    for (ExplainedDevice& one : explain(std::move(snapshot), file, a.device, !a.report.empty()))
      all.push_back(std::move(one));
  }
  const ExplainedDevice& first = *first_of(all);
  ChangesTried changes;
  if (first.device.events > 0) changes = tried(a, first);
  a.output.deliver(
      a.output.format == "json" ? json_text(json_of(all, changes)) : text_of(all, changes),
      fmt::format("{}", fmt::join(a.files, " ")));
  if (a.report.empty()) return 0;
  const fs::path folder = fs::absolute(a.report);
  const std::string json = json_text(json_of(all, changes)),
                    page = snapshot_page(std::move(all), changes, a.top, folder / "report.html");
  write_files(folder, {{.path = "report.html", .text = [&](const Put& put) { put(page); }},
                       {.path = "explanation.json", .text = [&](const Put& put) { put(json); }}});
  print(stdout, "report: {}\n", (folder / "report.html").string());
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Act& act) {
  auto* command = app.add_subcommand(
      "explain",
      "say of memory snapshots what ran out of memory, of what, and what would have fitted");
  auto a = std::make_shared<ExplainArguments>();
  command
      ->add_option("files", a->files,
                   "snapshots of torch.cuda.memory._dump_snapshot(), one of each rank; no code in "
                   "them is run")
      ->required();
  command->add_option("--device", a->device, "this device of the files alone");
  command->add_option("--setting", a->settings,
                      "try a setting of PYTORCH_CUDA_ALLOC_CONF (repeats; in place of the usual)");
  command->add_option("--edit", a->edits,
                      "try an edit: 'FILE:LINE xFACTOR' or 'FILE:LINE until backward' (repeats)");
  command->add_option("--gpu", a->gpu,
                      "try them on this GPU (a profile, by name or file), with what CUDA's "
                      "context and NCCL leave of it");
  command->add_option("--capacity", a->capacity,
                      "try them with so many bytes for the allocator, as in 40GiB");
  command->add_option("--report", a->report, "write the page, report.html, into this folder");
  command->add_option("--top", a->top, "number of rows of each list of the page")
      ->capture_default_str();
  a->output.add(command, {"text", "json"});
  command->footer(
      "examples:\n"
      "  tidemark explain oom_rank*.pickle --report why\n"
      "  tidemark explain oom.pickle --setting expandable_segments:True --gpu h200-141g\n"
      "  tidemark explain oom.pickle --edit 'model.py:88 x0.5' --edit 'model.py:88 until "
      "backward'\n"
      "Other commands for such files:\n"
      "  tidemark open FILE                  the page that --report writes, in the browser; "
      "memory_viz\n"
      "  tidemark compare A B                what the second has more, by line; exit code 1: its "
      "peak "
      "is higher\n"
      "  tidemark snapshot show FILE         all lists: the peak by line and size, frees that "
      "wait, "
      "fragmentation\n"
      "  tidemark snapshot replay FILE       whether PyTorch's allocator makes the recorded "
      "segments "
      "of the recorded requests\n"
      "  tidemark snapshot convert FILE      as JSON, for Perfetto, or as a pickle\n"
      "exit codes: 0, 2 usage or bad input");
  command->callback([a, &act] { act = [a] { return explain_files(*a); }; });
}

}  // namespace tidemark
