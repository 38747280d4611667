#include "reports/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>

#include "harness/record/json.h"
#include "reports/benchmark.h"
#include "reports/html.h"
#include "reports/junit.h"
#include "reports/markdown.h"
#include "reports/snapshot/of_rank.h"
#include "reports/trace.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& what, const std::string& remedy) {
  throw std::runtime_error(fmt::format("{}: {}: {}", path.string(), what, remedy));
}

std::vector<File> per_variant(const Report& report) {
  std::vector<File> out;
  std::map<std::string, int> taken;
  for (const TrialRecord& trial : report.trials) {
    for (const VariantRecord& variant : trial.variants) {
      const std::string name = variant_place(trial, variant, taken);
      if (std::string lines = loss_lines(variant); !lines.empty())
        out.push_back({"loss/" + name + ".txt", std::move(lines)});
      const bool sampled = std::ranges::any_of(
          variant.ranks, [](const RankRecord& r) { return !r.timeline.empty(); });
      if (sampled) out.push_back({"trace/" + name + ".json.gz", gzip(chrome_trace(variant))});
      for (const RankRecord& rank : variant.ranks) {
        if (rank.trace.events.empty()) continue;
        out.push_back(
            {fmt::format("snapshot/{}_rank{}.pickle", name, rank.rank), pickle(snapshot_of(rank))});
      }
    }
  }
  return out;
}

std::vector<File> renderings(const Report& report, const Report* base = nullptr) {
  std::vector<File> out = per_variant(report);
  out.push_back({"junit.xml", junit(report)});
  out.push_back({"summary.md", markdown(report)});
  out.push_back({"benchmark.json", benchmark_json(report)});
  out.push_back({"report.html", html(report, base)});
  return out;
}

/// Files written under other names, gone again unless they have been renamed.
class Drafts {
 public:
  explicit Drafts(std::string remedy) : remedy_(std::move(remedy)) {}
  ~Drafts() {
    std::error_code ignored;
    for (const fs::path& draft : drafts_) fs::remove(draft, ignored);
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
      fs::remove(*folder, ignored);  // if empty
  }

  void folder(const fs::path& path) {
    if (path.empty() || fs::is_directory(path)) return;
    folder(path.parent_path());
    std::error_code error;
    fs::create_directory(path, error);
    if (error) refuse(path, "cannot be made: " + error.message(), remedy_);
    made_.push_back(path);
  }

  void write(const fs::path& path, const std::string& bytes) {
    folder(path.parent_path());
    const fs::path draft = path.string() + ".partial";
    drafts_.push_back(draft);
    errno = 0;
    std::ofstream out(draft, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) refuse(path, std::string("cannot be written: ") + std::strerror(errno), remedy_);
  }

  void publish(const std::vector<fs::path>& paths) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      std::error_code error;
      fs::rename(drafts_[i], paths[i], error);
      if (error) refuse(paths[i], "cannot be put in place: " + error.message(), remedy_);
    }
    drafts_.clear();
    made_.clear();
  }

 private:
  std::string remedy_;
  std::vector<fs::path> drafts_, made_;
};

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

std::string variant_place(const TrialRecord& trial, const VariantRecord& variant,
                          std::map<std::string, int>& taken) {
  std::string out = trial_folder(trial) + path_component(variant.name);
  if (const int before = taken[out]++; before > 0) out += fmt::format("_{}", before + 1);
  return out;
}

void write_files(const fs::path& folder, const std::vector<File>& files,
                 const std::string& remedy) {
  Drafts drafts(remedy);
  std::vector<fs::path> paths;
  for (const File& file : files) {
    paths.push_back(folder / file.path);
    drafts.write(paths.back(), file.bytes);
  }
  drafts.publish(paths);
}

void write_all(const fs::path& folder, const Report& report) {
  if (fs::exists(folder / "report.json"))
    refuse(folder, "holds a report already", "choose another output folder (--out)");
  std::vector<File> files = renderings(report);
  files.push_back({"report.json", json_text(report)});  // last: who sees it sees the others too
  write_files(folder, files);
}

Rendered rerender(const fs::path& path, const fs::path& base) {
  const bool file = path.filename() == "report.json" && !fs::is_directory(path);
  if (!file && !fs::is_directory(path))
    refuse(path, "is neither a run's folder nor its report.json",
           "give the folder that a run wrote (--out)");
  const fs::path parent = path.parent_path(), folder = !file ? path : parent.empty() ? "." : parent;
  Report report = read_report(path);
  std::optional<Report> other;
  if (!base.empty()) other = read_report(base);
  write_files(folder, renderings(report, other ? &*other : nullptr),
              "make the folder writable, or copy report.json to another and render that");
  return {folder, std::move(report)};
}

}  // namespace tidemark
