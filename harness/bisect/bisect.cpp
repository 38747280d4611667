#include "harness/bisect/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "harness/bisect/environments.h"
#include "harness/bisect/options.h"
#include "harness/bisect/search.h"
#include "harness/errors.h"
#include "harness/exec/describe.h"
#include "harness/exec/program.h"
#include "harness/fit/cache.h"
#include "harness/fit/result.h"
#include "harness/fit/runs.h"
#include "harness/fit/written.h"
#include "harness/print.h"
#include "harness/ranks/processes.h"
#include "harness/record/bisect_fields.h"
#include "harness/record/file.h"
#include "harness/record/json_writer.h"
#include "harness/record/units.h"
#include "reports/bisect/page.h"
#include "reports/bisect/text.h"
#include "reports/compare/lines.h"
#include "reports/program/text.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The Python of the program's environment.
fs::path python_for(const std::vector<std::string>& program) {
  try {
    const auto python = python_of(find_program(program.front()));
    return python ? *python : find_program("python3");
  } catch (const UsageError& error) {
    const std::string what = error.what();
    throw UsageError("bisect" + what.substr(what.find(':')));
  }
}

/// Lines of fit's, which runs the programs, as those of this command.
template <class Call>
auto as_ours(Call call) {
  const auto ours = [](const std::exception& error) {
    const std::string what = error.what();
    return what.starts_with("fit: ") ? "bisect: " + what.substr(5) : what;
  };
  try {
    return call();
  } catch (const UsageError& error) {
    throw UsageError(ours(error));
  } catch (const Unavailable&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(ours(error));
  }
}

class Bisection {
 public:
  Bisection(const BisectOptions& bisect, const Environments& environments, Runs& runs,
            BisectRecord& record)
      : bisect_(bisect), environments_(environments), runs_(runs), record_(record) {}

  void search() {
    for (auto places = next(); !places.empty() && runs_.interrupted() == 0; places = next()) {
      std::vector<Wanted> wanted;
      std::vector<std::size_t> running;
      for (const std::size_t place : places) {
        if (interruption() != 0) break;
        BisectVersion& one = record_.versions[place];
        Environment made;
        try {
          made = environments_.make(one.version);
        } catch (const Unavailable&) {
          if (interruption() == 0) throw;
          break;
        }
        if (!made.skipped.empty()) {
          one.state = "not installed", one.why = made.skipped;
          continue;
        }
        one.changed = made.changed, one.packages = made.packages;
        locks_[place] = made.lock;
        wanted.push_back(wanted_of(one.version, made));
        running.push_back(place);
      }
      if (interruption() != 0) break;
      runs_.stage(fmt::format("{} of {} versions", tried(), record_.versions.size()));
      const std::vector<FitRun> done = as_ours([&] { return runs_.run(wanted); });
      for (const FitRun& run : done)
        for (std::size_t i = 0; i < wanted.size(); ++i)
          if (run.values == wanted[i].values) take(record_.versions[running[i]], run);
      if (done.size() < wanted.size()) break;
    }
  }

  void tell_changes() {
    for (const auto& [from, to] : changed_between(points(), bisect_.grew)) {
      const BisectVersion &was = record_.versions[from], &is = record_.versions[to];
      BisectChange change;
      change.from = was.version, change.to = is.version;
      change.between = static_cast<std::int64_t>(to - from - 1);
      change.because = because(was, is);
      change.reserved = is.run->reserved - was.run->reserved;
      change.allocated = is.run->allocated - was.run->allocated;
      if (was.run->alive && is.run->alive) {
        const AliveAtPeak before = at_lines_of(*was.run->alive, *is.run->alive);
        change.active = is.run->alive->active - before.active;
        change.parts = beyond(before, *is.run->alive);
      }
      record_.changes.push_back(std::move(change));
    }
  }

  /// By the version: the text of its lock file.
  std::map<std::string, std::string> lock_files() {
    std::map<std::string, std::string> out;
    for (const auto& [place, lock] : locks_) {
      BisectVersion& one = record_.versions[place];
      one.lock = fmt::format("{}{}.lock.txt", record_.package.empty() ? "" : record_.package + "-",
                             one.version);
      out[one.lock] = read_bytes(lock);
    }
    return out;
  }

 private:
  std::vector<Point> points() const {
    std::vector<Point> out;
    for (const BisectVersion& one : record_.versions) {
      Point& point = out.emplace_back();
      if (one.state != "not run")
        point.tried = one.ran() ? Point::Tried::ran : Point::Tried::refused;
      point.why = one.why;
      if (one.ran()) point.reserved = one.run->reserved, point.allocated = one.run->allocated;
    }
    return out;
  }

  std::vector<std::size_t> next() const { return next_points(points(), bisect_.grew, bisect_.all); }

  std::int64_t tried() const {
    return std::ranges::count_if(record_.versions,
                                 [](const BisectVersion& one) { return one.state != "not run"; });
  }

  Wanted wanted_of(const std::string& version, const Environment& made) const {
    const FitGpu& gpu = bisect_.fit.gpus.front().memory;
    const std::string what = record_.package.empty() ? "commit" : record_.package;
    Wanted out = run_with_room({{what, version}}, gpu.name);
    if (!bisect_.room) out.capacity = gpu.capacity(false);
    out.environment = environments_.variables(made);
    out.program = environments_.program(made);
    return out;
  }

  static void take(BisectVersion& one, const FitRun& run) {
    if (run.exit_code != 0 && run.ooms == 0 && !run.killed)
      one.state = "refused", one.why = run.last;
    else if (!run.unknown.empty())
      one.state = "not known", one.why = run.unknown;
    else if (run.ooms > 0)
      one.state = "refused", one.why = "out of memory";
    else
      one.state = "ran";
    one.run = run;
  }

  std::vector<std::string> because(const BisectVersion& was, const BisectVersion& is) const {
    std::vector<std::string> out;
    if (record_.package.empty())
      out.push_back(fmt::format("commit: {} -> {} {}", was.version, is.version, is.title));
    for (const auto& [name, version] : is.packages) {
      const auto before = was.packages.find(name);
      if (record_.package.empty() && version.find("file://") != std::string::npos) continue;
      if (before == was.packages.end())
        out.push_back(fmt::format("{}: none -> {}", name, version));
      else if (before->second != version)
        out.push_back(fmt::format("{}: {} -> {}", name, before->second, version));
    }
    for (const auto& [name, version] : was.packages)
      if (!is.packages.contains(name)) out.push_back(fmt::format("{}: {} -> none", name, version));
    return out;
  }

  const BisectOptions& bisect_;
  const Environments& environments_;
  Runs& runs_;
  BisectRecord& record_;
  std::map<std::size_t, fs::path> locks_;
};

/// "Not run: 2.5.0: yanked: a broken wheel".
void tell_notes(BisectRecord& record, const BisectOptions& bisect, const Versions& versions,
                const Runs& runs) {
  for (const auto& [version, why] : versions.skipped)
    record.notes.push_back(fmt::format("{} {} is skipped: {}", record.package, version, why));
  const auto waiting = std::ranges::count(record.versions, "not run", &BisectVersion::state);
  if (waiting > 0)
    record.notes.push_back(fmt::format(
        "{} did not run: between two with the same peaks nothing is tried (--all runs all).",
        plural(waiting, record.package.empty() ? "commit" : "version")));
  const auto steady = std::ranges::count_if(
      record.versions, [](const BisectVersion& one) { return one.run && one.run->steady; });
  if (steady > 0)
    record.notes.push_back(
        fmt::format("{} ended when a step had the peaks of the one before (--no-until-steady runs "
                    "to the end).",
                    plural(steady, "run")));
  record.notes.push_back(
      "NVIDIA's libraries are in no environment: the virtual platform stands in for them.");
  record.notes.push_back(fmt::format("{} here, {} from the cache; environments: {}",
                                     plural(static_cast<std::int64_t>(runs.count()), "run"),
                                     runs.cached(), bisect.fit.cache));
}

void write_results(const BisectOptions& bisect, const BisectRecord& record,
                   const std::map<std::string, std::string>& locks) {
  const std::string text = document_of("tidemark/bisect", json_of(record));
  if (!bisect.fit.out.empty()) {
    const fs::path out = fs::absolute(bisect.fit.out);
    std::vector<File> files{{out.filename().string(), text}};
    for (const auto& [name, lock] : locks)
      files.push_back({out.stem().string() + "." + name, lock});
    write_files(out.parent_path(), files, "name another file (--out)");
  }
  if (bisect.fit.report.empty()) return;
  const fs::path folder = bisect.fit.report;
  fs::create_directories(folder);
  std::vector<File> files{{"bisect.json", text},
                          {"bisect.md", bisect_markdown(record)},
                          {"report.html", bisect_page(record)}};
  for (const auto& [name, lock] : locks) files.push_back({name, lock});
  write_files(folder, files, "name another folder (--report)");
  print(stderr, "report: {}\n", (folder / "report.html").string());
}

int code_of(const BisectRecord& record) {
  const auto any = [&](const char* state) {
    return std::ranges::find(record.versions, state, &BisectVersion::state) !=
           record.versions.end();
  };
  if (!any("ran") || any("not known")) return 3;
  return record.changes.empty() ? 0 : 1;
}

}  // namespace

int bisect_program(int argc, char** argv, const RunRecord& version) {
  BisectOptions bisect;
  if (const int code = parse_bisect(argc, argv, bisect); code >= 0) return code;
  const auto begun = Clock::now();
  const Environments environments(bisect, python_for(bisect.fit.program));
  if (const std::string why = not_ours(bisect.fit.cache, true); !why.empty())
    throw Unavailable("bisect: " + why + ": name another folder (--cache)", 3);
  const Versions versions = environments.versions();
  BisectRecord record;
  record.program = bisect.fit.program;
  record.run = describe_exec(argc, argv, "", version);
  record.package = bisect.package, record.repository = bisect.repository;
  record.fixed = bisect.fixed, record.grew = bisect.grew.text;
  for (std::size_t i = 0; i < versions.names.size(); ++i)
    record.versions.push_back({.version = versions.names[i],
                               .title = versions.titles.empty() ? "" : versions.titles[i],
                               .state = "not run"});
  FitOptions running = bisect.fit;
  running.cache = fs::path(bisect.fit.cache) / "runs";
  Runs runs(running, version.tidemark + " " + version.git, "");
  Bisection bisection(bisect, environments, runs, record);
  bisection.search();
  bisection.tell_changes();
  tell_notes(record, bisect, versions, runs);
  const auto locks = bisection.lock_files();
  record.run.duration_ns = std::chrono::nanoseconds(Clock::now() - begun).count();
  const int signal = runs.interrupted() != 0 ? runs.interrupted() : interruption();
  if (signal != 0) {
    record.run.interrupted = true;
    record.notes.push_back(
        "Interrupted: what has run is kept, and the same command goes on from there.");
  }
  const std::string out = bisect.format == "json" ? document_of("tidemark/bisect", json_of(record))
                          : bisect.format == "markdown" ? bisect_markdown(record)
                                                        : bisect_text(record);
  print(stdout, "{}", out);
  write_results(bisect, record, locks);
  return signal != 0 ? 128 + signal : code_of(record);
}

}  // namespace tidemark
