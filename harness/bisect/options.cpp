#include "harness/bisect/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "harness/errors.h"
#include "harness/fit/running.h"
#include "harness/help.h"
#include "harness/ranks/processes.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    "examples:\n"
    "  tidemark bisect --package torch=2.9.1..2.15.0 -- python3 train.py\n"
    "  tidemark bisect --package transformers=4.45..5.3 \\\n"
    "    --package torch=2.11.0 -- torchrun --nproc-per-node 4 train.py\n"
    "  tidemark bisect --commits v1.2..main --repo ../mylib -- python3 train.py\n"
    "Each version has an environment of its own, made by uv: that of the program's Python, in "
    "which "
    "only the package and what it demands are others. Without the first version of a range the "
    "installed one begins it, without the last the newest ends it.\n"
    "exit codes: 0 nothing changed; 1 a change was found; 2 usage or bad input; 3 a run failed, or "
    "the network, the disk; 130 interrupted (what has run is kept: the same command goes on).";

struct BisectWords : RunningWords {
  std::vector<std::string> packages;
  std::string commits, grew = "1%";
};

void take_package(const std::string& text, BisectOptions& bisect) {
  const auto equals = text.find('=');
  const std::string name = text.substr(0, equals);
  std::string versions = equals == text.npos ? "" : text.substr(equals + 1);
  if (versions.starts_with('=')) versions.erase(0, 1);  // NAME==VERSION, as pip has it
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || versions.empty() || !std::ranges::all_of(name, is_word) || name[0] == '-')
    throw UsageError(
        fmt::format("bisect: --package {}: give NAME=FIRST..LAST, NAME=A,B,C, or NAME=VERSION for "
                    "one that stays",
                    text));
  const auto dots = versions.find("..");
  const bool listed = versions.find(',') != versions.npos;
  if (dots == versions.npos && !listed) {
    if (!bisect.fixed.try_emplace(name, versions).second)
      throw UsageError("bisect: --package names " + name + " twice");
    return;
  }
  if (!bisect.package.empty())
    throw UsageError(
        fmt::format("bisect: {} and {} are both ranges: fix one of them "
                    "(--package NAME=VERSION), and try it in a second command",
                    bisect.package, name));
  bisect.package = name;
  if (listed) {
    bisect.listed = CLI::detail::split(versions, ',');
    return;
  }
  bisect.first = versions.substr(0, dots), bisect.last = versions.substr(dots + 2);
}

void take_commits(const std::string& text, BisectOptions& bisect) {
  const auto dots = text.find("..");
  if (dots == text.npos || dots == 0)
    throw UsageError("bisect: --commits " + text + ": give FIRST..LAST, as git has it");
  if (!bisect.package.empty())
    throw UsageError("bisect: --commits and a range of --package are two questions: give one");
  bisect.first = text.substr(0, dots), bisect.last = text.substr(dots + 2);
  if (bisect.last.starts_with('.')) bisect.last.erase(0, 1);
  if (bisect.last.empty()) bisect.last = "HEAD";
  if (bisect.repository.empty()) bisect.repository = ".";
  if (!fs::is_directory(bisect.repository))
    throw UsageError("bisect: --repo " + bisect.repository + ": is not a folder");
  bisect.repository = fs::canonical(bisect.repository);
}

void check(BisectOptions& bisect, bool has_repository) {
  FitOptions& fit = bisect.fit;
  if (fit.program.empty())
    throw UsageError(
        "bisect: no command: tidemark bisect --package torch=2.9.1..2.15.0 -- python3 train.py");
  if (fit.program.front().starts_with("-"))
    throw UsageError(
        fmt::format("bisect: {} is not a flag of bisect (tidemark bisect --help lists flags)",
                    fit.program.front()));
  if (bisect.package.empty() && bisect.repository.empty())
    throw UsageError("bisect: nothing varies: add --package NAME=FIRST..LAST, or --commits");
  if (has_repository && !bisect.package.empty()) throw UsageError("bisect: --repo is of --commits");
  if (bisect.fixed.contains(bisect.package))
    throw UsageError("bisect: --package names " + bisect.package + " twice");
  if (fit.gpus.size() > 1) throw UsageError("bisect: --gpu takes one GPU");
  if (fit.cache.empty()) fit.cache = usual_cache("bisect");
  if (fit.cache.empty())
    throw UsageError("bisect: HOME is not set: name a folder for the environments (--cache)");
  fit.cache = fs::absolute(fit.cache);
  if (fit.jobs == 0) fit.jobs = cores();
  fit.server = false;  // each version has a Python of its own
  fit.refusals = true;
  for (const auto& [flag, place] : {std::pair{"--out", fit.out}, std::pair{"--report", fit.report}})
    if (!place.empty() && fs::exists(place))
      throw UsageError(fmt::format("bisect: {} {} exists already: give another name", flag, place));
}

}  // namespace

int parse_bisect(int argc, char** argv, BisectOptions& bisect) {
  BisectWords words;
  CLI::App app(
      "find the version of a package, or the commit, at which a PyTorch program's memory changes, "
      "by exact runs without a GPU: tidemark bisect [flags] -- PROGRAM ARGUMENTS...",
      "tidemark bisect");
  app.formatter(std::make_shared<Help>());
  app.footer(kFooter);
  app.add_option(
         "--package", words.packages,
         "NAME=FIRST..LAST or NAME=A,B,C: the versions that are tried; NAME=VERSION: another "
         "package, which stays at it; several")
      ->allow_extra_args(false);
  app.add_option("--commits", words.commits,
                 "FIRST..LAST: the commits of --repo that are tried, along first parents");
  app.add_option("--repo", bisect.repository, "the git repository of --commits (.)");
  app.add_option("--grew", words.grew,
                 "a change is more than this between two versions: a share, or bytes (1%)");
  app.add_flag("--all", bisect.all, "run every version");
  add_running(app, words, bisect.fit);
  app.add_option("--report", bisect.fit.report,
                 "folder for a page, Markdown, the JSON and the lock files");
  app.add_option("--format", bisect.format, "text, markdown or json")
      ->check(CLI::IsMember({"text", "markdown", "json"}));
  group(&app, "What varies", {"--package", "--commits", "--repo", "--grew", "--all"});
  group(&app, "What is written", {"--report", "--format"});
  try {
    std::vector<std::string> given(argv + 2, argv + argc);
    std::ranges::reverse(given);  // as CLI11 wants them
    app.parse(given);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("bisect: {} (tidemark bisect --help lists flags)", error.what()));
  }
  FitOptions& fit = bisect.fit;
  fit.program = app.remaining();
  if (!fit.program.empty() && fit.program.front() == "--") fit.program.erase(fit.program.begin());
  const bool has_repository = !bisect.repository.empty();
  for (const std::string& text : words.packages) take_package(text, bisect);
  if (!words.commits.empty()) take_commits(words.commits, bisect);
  bisect.grew = parse_grew(words.grew);
  take_running("bisect", words, fit);
  bisect.room = words.capacity.empty();
  check(bisect, has_repository);
  return -1;
}

}  // namespace tidemark
