#include "reports/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "harness/memory/process_record.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/snapshot.h"
#include "harness/record/file.h"
#include "harness/record/gzip.h"
#include "harness/record/json.h"
#include "harness/record/one_line.h"
#include "harness/record/units.h"
#include "reports/html.h"
#include "reports/renderings.h"
#include "reports/trace.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDetails = "details";

[[noreturn]] void refuse(const fs::path& path, const std::string& what, const std::string& remedy) {
  throw std::runtime_error(fmt::format("{}: {}: {}", path.string(), what, remedy));
}

/// "scenario/size/rN/mode/schedule/variant". Two trials (of different parameters, say) may have one
/// name: the second is told apart by a number. `taken` counts them.
std::string variant_place(const TrialRecord& trial, const VariantRecord& variant,
                          std::map<std::string, int>& taken) {
  std::string out = trial_folder(trial) + path_component(variant.name);
  if (const int before = taken[out]++; before > 0) out += fmt::format("_{}", before + 1);
  return out;
}

std::string snapshot_of(const RankRecord& rank) {
  return fmt::format("snapshot of rank {}", rank.rank);
}

/// The files of a run's folder that belong to one variant; `variant.files` names them.
void add_files(VariantRecord& variant, const std::string& place, bool details,
               std::vector<File>& out) {
  const auto put = [&](const std::string& what, const std::string& path, std::string bytes) {
    const FileBeside file{what, path};
    if (std::ranges::find(variant.files, file) == variant.files.end())
      variant.files.push_back(file);
    out.push_back({path, std::move(bytes)});
  };
  if (std::string lines = loss_lines(variant); !lines.empty())
    put("losses", "loss/" + place + ".txt", std::move(lines));
  if (std::ranges::any_of(variant.ranks, [](const auto& r) { return !r.spans.all.empty(); }))
    put("trace", "trace/" + place + ".json.gz", gzip(chrome_trace(variant)));
  for (const RankRecord& rank : variant.ranks)
    if (const auto memory = unpacked_bytes(rank.memory); memory && !memory->empty())
      put(snapshot_of(rank), fmt::format("snapshot/{}_rank{}.record", place, rank.rank), *memory);
  if (!details) return;
  if (const std::string text = details_text(variant); !text.empty())
    put(kDetails, "details/" + place + ".json.gz", gzip(text));
}

/// The files that can be made of the report. It names no file that is neither made nor in `folder`.
std::vector<File> files_of_variants(const fs::path& folder, Report& report, bool details) {
  std::vector<File> out;
  std::map<std::string, int> taken;
  for (TrialRecord& trial : report.trials)
    for (VariantRecord& variant : trial.variants) {
      const std::string place = variant_place(trial, variant, taken);
      const auto first = static_cast<std::ptrdiff_t>(out.size());
      add_files(variant, place, details, out);
      std::erase_if(variant.files, [&](const FileBeside& file) {
        return std::find_if(out.begin() + first, out.end(),
                            [&](const File& made) { return made.path == file.path; }) ==
                   out.end() &&
               !fs::exists(folder / file.path);
      });
    }
  return out;
}

/// The run's folder: `path` itself, or where it is the report.json of one.
fs::path folder_of(const fs::path& path) {
  if (fs::is_directory(path)) return path;
  if (path.filename() != "report.json")
    refuse(path, "is neither a run's folder nor its report.json",
           "give the folder that a run wrote (--out)");
  return path.has_parent_path() ? path.parent_path() : ".";
}

void read_details(const fs::path& folder, Report& report) {
  for (TrialRecord& trial : report.trials)
    for (VariantRecord& variant : trial.variants) {
      const auto file = std::ranges::find(variant.files, kDetails, &FileBeside::what);
      if (file == variant.files.end()) continue;
      refuse_links(folder, file->path);
      const fs::path path = folder / file->path;
      if (!fs::exists(path))
        refuse(path, "cannot be read",
               "report.json needs the details/ that the run wrote beside it");
      const auto text = gunzip(read_bytes(path));
      if (!text) refuse(path, "it is not gzip, or is cut off", "copy the folder of the run again");
      add_details(variant, *text, path.string());
    }
}

/// The records of its ranks' memory, of which the page has pictures.
void read_memories(const fs::path& folder, Report& report) {
  for (TrialRecord& trial : report.trials)
    for (VariantRecord& variant : trial.variants)
      for (const FileBeside& file : variant.files) {
        if (!file.path.ends_with(".record") || !fs::exists(folder / file.path)) continue;
        refuse_links(folder, file.path);
        const fs::path path = folder / file.path;
        const auto record = read_record(path, true);
        if (!record) refuse(path, "is cut off", "copy the folder of the run again");
        record_snapshot(*record, path.string());  // throws where it is no record
        for (RankRecord& rank : variant.ranks)
          if (file.what == snapshot_of(rank)) rank.memory = packed_bytes(record->bytes);
      }
}

void add_renderings(std::vector<File>& out, const Report& report, const Report* base = nullptr,
                    const Changes* changes = nullptr, const Nights* nights = nullptr) {
  out.push_back({"junit.xml", junit(report)});
  out.push_back({"summary.md", markdown(report)});
  out.push_back({"benchmark.json", benchmark_json(report)});
  out.push_back({"report.html", html(report, base, changes, nights)});
}

}  // namespace

std::string path_component(const std::string& name) {
  std::string out = name.substr(0, 100);
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  if (out.empty() || out.front() == '.') out.insert(0, "_");
  return out;
}

std::string trial_folder(const TrialRecord& trial) {
  std::string out;
  for (const std::string& part : {trial.scenario, trial.size, fmt::format("r{}", trial.ranks),
                                  std::string(name_of(trial.mode)), trial.schedule}) {
    out += path_component(part) + "/";
  }
  return out;
}

void write_all(const fs::path& folder, const Report& report, FindNights nights) {
  if (fs::exists(folder / "report.json"))
    refuse(folder, "holds a report already", "choose another output folder (--out)");
  Report written = report;
  for (TrialRecord& trial : written.trials) put_in_order(trial.verdicts);
  std::vector<File> rest = files_of_variants(folder, written, true);
  const auto needed = std::ranges::stable_partition(
      rest, [](const File& file) { return file.path.starts_with(kDetails); });
  std::vector<File> files(std::move_iterator(rest.begin()), std::move_iterator(needed.begin()));
  rest.erase(rest.begin(), needed.begin());
  const Nights past = nights == nullptr ? Nights() : nights(folder, written);
  add_renderings(rest, written, nullptr, nullptr, &past);
  files.push_back({"report.json", head_text(written)});
  Drafts drafts(
      folder,
      "make room there, then write the report by tidemark report; or choose another output folder "
      "(--out)");
  for (const File& file : files) drafts.write(file);
  std::vector<std::string> missing;
  for (const File& file : rest) {
    try {
      write_files(folder, {file});
    } catch (const std::runtime_error& error) {
      missing.emplace_back(missing.empty() ? error.what() : file.path);
    }
  }
  drafts.publish();  // last: who sees report.json sees the others too
  if (missing.empty()) return;
  const std::size_t others = missing.size() - 1;
  throw std::runtime_error(fmt::format(
      "{}{}; report.json and {}/ are whole: make room, then write the others by "
      "tidemark report {}",
      missing.front(),
      others == 0 ? "" : ", and " + plural(static_cast<std::int64_t>(others), "more file"),
      kDetails, shell_word(folder)));
}

Report read_whole(const fs::path& path) {
  const fs::path folder = folder_of(path);
  Report report = read_report(path);
  read_details(folder, report);
  read_memories(folder, report);
  return report;
}

Rendered rerender(const fs::path& path, const Report* base,
                  Changes (*changed)(const Report& base, const Report& fresh), FindNights nights) {
  const fs::path folder = folder_of(path);
  Report report = read_whole(path);
  if (report.of_programs()) return {folder, std::move(report)};
  std::optional<Changes> changes;
  if (base != nullptr && changed != nullptr) changes = changed(*base, report);
  std::vector<File> files = files_of_variants(folder, report, false);
  const Nights past = nights == nullptr ? Nights() : nights(folder, report);
  add_renderings(files, report, base, changes ? &*changes : nullptr, &past);
  write_files(
      folder, files,
      "make the folder writable, or copy report.json and details/ to another and render that");
  return {folder, std::move(report)};
}

}  // namespace tidemark
