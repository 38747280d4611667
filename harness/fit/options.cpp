#include "harness/fit/options.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "harness/errors.h"
#include "harness/fit/config_file.h"
#include "harness/help.h"
#include "harness/ranks/processes.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

const std::string kFit =
    "find the largest value, and the GPU, with which a PyTorch program fits: exact runs on the "
    "virtual platform, without a GPU";
const std::string kAdvise =
    "try changes of a PyTorch program that need no edit of it, each by a run, and list what they "
    "save and cost";
constexpr const char* kFooter =
    "example:\n"
    "  tidemark fit --vary batch=1..256 --gpu a100-40g,h100-80g -- \\\n"
    "    python3 train.py --batch {batch}\n"
    "VALUES are a range, 1..64, 8..64:8 or 1..64:x2, which is searched for the largest value that "
    "fits, or a list, a,b,c, of which every value runs. NAME stands as {NAME} in the command; "
    "env:NAME is an environment variable, FILE:KEY a key of a TOML or JSON file that the command "
    "names.\n"
    "exit codes: 0 a value fits; 1 none fits; 2 usage or bad input; 3 infrastructure; 130 "
    "interrupted (what has run is kept: the same command goes on).";

/// Flags that go on to exec, with what their help says of them.
constexpr std::pair<const char*, const char*> kPassed[] = {
    {"--ranks", "number of processes to start"},
    {"--as-rank", "R[,R...]: ranks without partners"},
    {"--of", "number of ranks of the whole job"},
    {"--devices", "number of GPUs that a process sees"},
    {"--schedule", "when the device works"},
    {"--alloc-conf", "PyTorch's allocator settings"},
    {"--mode", "which values are computed"},
    {"--sizes", "answers for sizes that are not known"},
    {"--known-limit", "largest tensor that is computed"},
    {"--timeout", "seconds that a rank waits for another"}};

/// The flags as text.
struct Words {
  std::vector<std::string> vary, gpus;
  std::string capacity, reserve, config, prices;
  std::array<std::string, std::size(kPassed)> passed;
};

void add(CLI::App& app, Words& words, FitOptions& fit) {
  app.footer(kFooter);
  const auto last = CLI::MultiOptionPolicy::TakeLast;  // of --config and of the command line
  app.add_option("--vary", words.vary, "NAME=VALUES, env:NAME=VALUES or FILE:KEY=VALUES; several")
      ->allow_extra_args(false);
  app.add_option("--config", words.config, "a TOML file with these flags and the command");
  app.add_option("--prices", words.prices,
                 "a file with lines 'GPU PRICE': names the cheapest GPU that fits")
      ->multi_option_policy(last);
  app.add_flag("--advise,!--no-advise", fit.advise,
               "try what would help the nearest combination that does not fit (tidemark advise)");
  app.add_option("--report", fit.report, "folder for a page and the JSON")
      ->multi_option_policy(last);
  group(&app, "What varies", {"--vary", "--config"});
  group(&app, "The GPUs", {"--prices"});
  group(&app, "What is written", {"--advise", "--report"});
}

/// Flags of how programs run, of fit and of advise.
void add_running(CLI::App& app, Words& words, FitOptions& fit) {
  const auto last = CLI::MultiOptionPolicy::TakeLast;
  app.prefix_command();
  app.add_option("--gpu", words.gpus, "G[,G...]: profiles of GPUs, or files (h100-80g)")
      ->allow_extra_args(false);
  app.add_option("--capacity", words.capacity,
                 "memory of the GPU that PyTorch can have, in place of what the profile leaves: as "
                 "in 22GiB")
      ->multi_option_policy(last);
  app.add_option("--reserve", words.reserve,
                 "memory of a GPU that PyTorch's allocator cannot have, in place of the profile's "
                 "context and NCCL: as in 1GiB, or 0")
      ->multi_option_policy(last);
  app.add_option("--out", fit.out, "write the result as JSON")->multi_option_policy(last);
  app.add_flag("--until-steady,!--no-until-steady", fit.until_steady,
               "end a run when its training steps repeat (default)");
  app.add_option("--jobs", fit.jobs, "runs at a time (as many as there are cores)")
      ->check(CLI::Range(1, 1024))
      ->multi_option_policy(last);
  app.add_option("--limit", fit.limit,
                 "seconds after which a run that has not ended is ended, and unknown (1800)")
      ->check(CLI::Range(1, 1 << 20))
      ->multi_option_policy(last);
  app.add_option("--cache", fit.cache,
                 "folder with the results of runs ($XDG_CACHE_HOME/tidemark/fit)")
      ->multi_option_policy(last);
  app.add_flag("--server,!--no-server", fit.server,
               "import torch once, and run copies of that process (default)");
  app.add_flag("--fresh", fit.fresh, "run also what the cache has");
  for (std::size_t i = 0; i < std::size(kPassed); ++i)
    app.add_option(kPassed[i].first, words.passed[i],
                   std::string(kPassed[i].second) + ", as in tidemark exec")
        ->multi_option_policy(last)
        ->group("Of each run");
  group(&app, "The GPUs", {"--gpu", "--capacity", "--reserve"});
  group(&app, "How it runs",
        {"--until-steady", "--limit", "--jobs", "--server", "--cache", "--fresh"});
  group(&app, "What is written", {"--out"});
}

fs::path usual_cache() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg != 0) return fs::path(xdg) / "tidemark" / "fit";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == 0) {
    const passwd* user = getpwuid(geteuid());
    home = user != nullptr ? user->pw_dir : nullptr;
  }
  if (home == nullptr || *home != '/') return "";  // no folder that another user could have made
  return fs::path(home) / ".cache" / "tidemark" / "fit";
}

void parse_words(CLI::App& app, std::vector<std::string> words) {
  std::ranges::reverse(words);  // as CLI11 wants them
  app.parse(words);
}

void take(const Words& words, FitOptions& fit) {
  for (std::size_t i = 0; i < std::size(kPassed); ++i) {
    const auto& [flag, value] = std::pair(std::string(kPassed[i].first), words.passed[i]);
    if (value.empty()) continue;
    if (flag == "--schedule" && value.find(',') != std::string::npos)
      throw UsageError("fit: --schedule takes one schedule: tidemark exec compares several");
    if (flag == "--alloc-conf") {  // a change of advise adds to it
      setenv("PYTORCH_ALLOC_CONF", value.c_str(), 1);
      continue;
    }
    fit.exec.insert(fit.exec.end(), {flag, value});
  }
  for (const std::string& text : words.vary) fit.variables.push_back(parse_variable(text));
  const auto bytes_of = [](const char* flag, const std::string& text, auto parse) {
    std::optional<Bytes> bytes;
    if (!text.empty() && !(bytes = parse(text))) throw UsageError("fit: " + not_bytes(flag, text));
    return bytes;
  };
  const auto reserve = bytes_of("--reserve", words.reserve, parse_bytes_or_zero);
  const auto capacity = bytes_of("--capacity", words.capacity, parse_bytes);
  std::set<std::string> names;
  for (const std::string& some :
       words.gpus.empty() ? std::vector<std::string>{"h100-80g"} : words.gpus)
    for (const std::string& name : CLI::detail::split(some, ',')) {
      if (!names.insert(name).second) throw UsageError("fit: --gpu names " + name + " twice");
      fit.gpus.push_back(find_gpu(name, reserve, capacity));
    }
  if (capacity && fit.gpus.size() > 1)
    throw UsageError("fit: --capacity is that of one GPU: leave it out, or name one GPU");
  if (!words.prices.empty()) read_prices(words.prices, fit.gpus);
}

void check(FitOptions& fit, bool varies) {
  if (fit.program.empty())
    throw UsageError(
        varies ? "fit: no command: tidemark fit --vary NAME=1..64 -- python3 train.py {NAME}"
               : "advise: no command: tidemark advise -- python3 train.py");
  if (fit.program.front().starts_with("-"))
    throw UsageError(fmt::format("{0}: {1} is not a flag of {0} (tidemark {0} --help lists flags)",
                                 varies ? "fit" : "advise", fit.program.front()));
  if (varies && fit.variables.empty())
    throw UsageError("fit: nothing varies: add --vary NAME=1..64 (tidemark exec runs one program)");
  if (!varies && fit.gpus.size() > 1)
    throw UsageError("advise: --gpu takes one GPU: tidemark fit compares several");
  check_variables(fit.variables, fit.program);
  if (fit.cache.empty()) fit.cache = usual_cache();
  if (!fit.cache.empty()) fit.cache = fs::absolute(fit.cache);
  if (fit.jobs == 0) fit.jobs = cores();
  for (const auto& [flag, place] : {std::pair{"--out", fit.out}, std::pair{"--report", fit.report}})
    if (!place.empty() && fs::exists(place))
      throw UsageError(fmt::format("fit: {} {} exists already: give another name", flag, place));
}

}  // namespace

int parse_fit(int argc, char** argv, FitOptions& fit) {
  Words words;
  const bool varies = std::string(argv[1]) != "advise";
  const std::string command = varies ? "fit" : "advise";
  CLI::App app(
      (varies ? kFit : kAdvise) + (": tidemark " + command) + " [flags] -- PROGRAM ARGUMENTS...",
      "tidemark " + command);
  app.formatter(std::make_shared<Help>());
  if (varies) add(app, words, fit);
  add_running(app, words, fit);
  try {
    const std::vector<std::string> given(argv + 2, argv + argc);
    parse_words(app, given);
    fit.program = app.remaining();
    if (!words.config.empty()) {
      const std::string config = words.config;
      const bool has_command = !fit.program.empty();
      std::vector<std::string> all = words_of_config(config);
      const auto dashes = std::ranges::find(all, "--");
      const std::vector<std::string> program(dashes, all.end());
      all.erase(dashes, all.end());
      all.insert(all.end(), given.begin(), given.end());
      if (!has_command) all.insert(all.end(), program.begin(), program.end());
      words = {};
      parse_words(app, all);
      fit.program = app.remaining();
    }
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw UsageError(
        fmt::format("{0}: {1} (tidemark {0} --help lists flags)", command, error.what()));
  }
  if (!fit.program.empty() && fit.program.front() == "--") fit.program.erase(fit.program.begin());
  take(words, fit);
  check(fit, varies);
  return -1;
}

}  // namespace tidemark
