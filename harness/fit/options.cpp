#include "harness/fit/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "harness/errors.h"
#include "harness/fit/config_file.h"
#include "harness/fit/running.h"
#include "harness/help.h"
#include "harness/ranks/processes.h"

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

/// The flags as text.
struct Words : RunningWords {
  std::vector<std::string> vary;
  std::string config, prices;
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

void parse_words(CLI::App& app, std::vector<std::string> words) {
  std::ranges::reverse(words);  // as CLI11 wants them
  app.parse(words);
}

void take(const Words& words, FitOptions& fit) {
  for (const std::string& text : words.vary) fit.variables.push_back(parse_variable(text));
  take_running("fit", words, fit);
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
  if (fit.cache.empty()) fit.cache = usual_cache("fit");
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
