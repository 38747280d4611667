#include "reports/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
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

/// Takes a file, by its path in the folder and what makes its bytes.
using PutFile = std::function<void(const std::string& path, TextMaker text)>;

/// What is made as a whole.
TextMaker made(std::function<std::string()> text) {
  return [text = std::move(text)](const Put& put) { put(text()); };
}

/// The files of a run's folder that belong to one variant; `variant.files` names them, and no file
/// that is neither made nor in `folder`.
void put_files(const fs::path& folder, VariantRecord& variant, const std::string& place,
               bool details, const PutFile& out) {
  std::vector<std::string> there;
  const auto put = [&](const std::string& what, const std::string& path, auto text) {
    const FileBeside file{what, path};
    if (std::ranges::find(variant.files, file) == variant.files.end())
      variant.files.push_back(file);
    there.push_back(path);
    out(path, made(text));
  };
  if (std::string lines = loss_lines(variant); !lines.empty())
    put("losses", "loss/" + place + ".txt", [&] { return std::move(lines); });
  if (std::ranges::any_of(variant.ranks, [](const auto& r) { return !r.spans.all.empty(); }))
    put("trace", "trace/" + place + ".json.gz", [&] { return gzip(chrome_trace(variant)); });
  for (const RankRecord& rank : variant.ranks)
    if (!rank.memory.empty())
      put(snapshot_of(rank), fmt::format("snapshot/{}_rank{}.record", place, rank.rank), [&] {
        auto memory = unpacked_bytes(rank.memory);
        if (!memory)
          refuse(folder, fmt::format("the memory of {} is damaged", place), "run it again");
        return std::move(*memory);
      });
  if (details)
    if (const std::string text = details_text(variant); !text.empty())
      put(kDetails, "details/" + place + ".json.gz", [&] { return gzip(text); });
  std::erase_if(variant.files, [&](const FileBeside& file) {
    return (details || file.what != kDetails) &&
           std::ranges::find(there, file.path) == there.end() && !fs::exists(folder / file.path);
  });
}

/// The files that can be made of the report, one after another.
void put_files(const fs::path& folder, Report& report, bool details, const PutFile& out) {
  std::map<std::string, int> taken;
  for (TrialRecord& trial : report.trials)
    for (VariantRecord& variant : trial.variants)
      put_files(folder, variant, variant_place(trial, variant, taken), details, out);
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

void put_renderings(const PutFile& out, const Report& report, const Report* base = nullptr,
                    const Changes* changes = nullptr, const Nights* nights = nullptr) {
  out("junit.xml", made([&] { return junit(report); }));
  out("summary.md", made([&] { return markdown(report); }));
  out("benchmark.json", benchmark_json(report));
  out("report.html", page_of(report, base, changes, nights));
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

void write_all(const fs::path& folder, Report report, FindNights nights) {
  if (fs::exists(folder / "report.json"))
    refuse(folder, "holds a report already", "choose another output folder (--out)");
  for (TrialRecord& trial : report.trials) put_in_order(trial.verdicts);
  Drafts drafts(
      folder,
      "make room there, then write the report by tidemark report; or choose another output folder "
      "(--out)");
  put_files(folder, report, true, [&](const std::string& path, const TextMaker& text) {
    if (path.starts_with(kDetails)) drafts.write({path, "", text});
  });
  drafts.write({"report.json", "", head_text(report)});
  std::vector<std::string> missing;
  const PutFile put = [&](const std::string& path, const TextMaker& text) {
    try {
      write_files(folder, {{path, "", text}});
    } catch (const std::runtime_error& error) {
      missing.emplace_back(missing.empty() ? error.what() : path);
    }
  };
  put_files(folder, report, false, put);
  const Nights past = nights == nullptr ? Nights() : nights(folder, report);
  put_renderings(put, report, nullptr, nullptr, &past);
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
  Drafts drafts(
      folder,
      "make the folder writable, or copy report.json and details/ to another and render that");
  const PutFile put = [&](const std::string& path, const TextMaker& text) {
    drafts.write({path, "", text});
  };
  put_files(folder, report, false, put);
  const Nights past = nights == nullptr ? Nights() : nights(folder, report);
  put_renderings(put, report, base, changes ? &*changes : nullptr, &past);
  drafts.publish();
  return {folder, std::move(report)};
}

}  // namespace tidemark
