#include "harness/record/made.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tidemark {
namespace {

using Names = std::vector<std::string_view>;

// Of tidemark's commands: with a value, and without one.
const Names kValued{"out",     "report", "compare", "base",      "resume",
                    "history", "color",  "details", "threshold", "max-peak"};
const Names kAlone{"force",      "require-all", "allow-missing", "no-races",
                   "no-retries", "no-growth",   "fits"};
// Of programs and of torchrun, which takes '_' for '-'.
const Names kOfPrograms{"out",
                        "output",
                        "out-dir",
                        "output-dir",
                        "log-dir",
                        "logdir",
                        "logging-dir",
                        "save-dir",
                        "run-name",
                        "run-id",
                        "rdzv-id",
                        "rdzv-endpoint",
                        "master-addr",
                        "master-port",
                        "node-rank",
                        "main-process-ip",
                        "main-process-port"};

/// The name of a flag, "--output_dir=x" as "output-dir"; empty: it is none.
std::string name_of_flag(const std::string& word) {
  if (!word.starts_with("--") || word.size() == 2) return "";
  std::string name = word.substr(2, word.find('=') - 2);
  std::ranges::replace(name, '_', '-');
  return name;
}

bool is_in(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The value of a flag as the run was given it; empty: it was not.
std::string value_of(const std::vector<std::string>& argv, const std::string& flag) {
  for (std::size_t i = 0; i < argv.size() && argv[i] != "--"; ++i) {
    if (argv[i] == "--" + flag && i + 1 < argv.size()) return argv[i + 1];
    if (argv[i].starts_with("--" + flag + "=")) return argv[i].substr(flag.size() + 3);
  }
  return "";
}

}  // namespace

bool is_own_variable(const std::string& name) {
  static const Names kOwn{"EXEC",         "EXEC_SETTINGS", "JOB",     "LIVE",         "NCCL_WAITS",
                          "ON",           "OUT",           "RANK",    "RESUME",       "RUN_ID",
                          "SESSION",      "SOCKET",        "STAGED",  "SUITE_EVENTS", "SUITE_TREE",
                          "SUITE_WANTED", "TERMINAL",      "TIMEOUT", "UPSTREAM_OUT", "USERS",
                          "WORLD",        "NO_SCENARIOS",  "COLOR",   "HISTORY"};
  constexpr std::string_view kOurs = "TIDEMARK_";
  if (!name.starts_with(kOurs)) return name == "NCCL_COMM_ID" || name == "NCCL_DEBUG";
  return is_in(kOwn, name.substr(kOurs.size()));
}

std::map<std::string, std::string> telling_variables(const RunRecord& run) {
  std::map<std::string, std::string> out = run.env;
  std::erase_if(out, [](const auto& one) { return is_own_variable(one.first); });
  return out;
}

std::vector<std::string> telling_arguments(const RunRecord& run) {
  std::vector<std::string> out;
  bool program = false;  // behind "--"
  for (std::size_t i = 1; i < run.argv.size(); ++i) {
    const std::string& word = run.argv[i];
    const std::string name = name_of_flag(word);
    program = program || word == "--";
    const bool valued = is_in(program ? kOfPrograms : kValued, name);
    if (!program && is_in(kAlone, name)) continue;
    if (!valued) {
      out.push_back(word);
      continue;
    }
    const bool apart = word.find('=') == std::string::npos;  // its value is the next word, if any
    if (apart && i + 1 < run.argv.size() && !run.argv[i + 1].starts_with("-")) ++i;
  }
  return out;
}

std::string run_settings(const RunRecord& run) {
  std::map<std::string, std::string> all;
  for (const auto& [name, value] : telling_variables(run))
    if (!name.starts_with("TIDEMARK_")) all[name] = value;
  const auto take = [&](const char* flag, const std::string& variable) {
    const auto twin = run.env.find("TIDEMARK_" + variable);
    std::string value = value_of(run.argv, flag);
    if (value.empty() && twin != run.env.end()) value = twin->second;
    if (!value.empty())
      all[flag == std::string("alloc-conf") ? "PYTORCH_ALLOC_CONF" : flag] = value;
  };
  take("alloc-conf", "ALLOC_CONF");
  for (const auto& [flag, variable] : {std::pair{"collectives", "COLLECTIVES"},
                                       {"as-rank", "AS_RANK"},
                                       {"races", "RACES"},
                                       {"placement", "PLACEMENT"},
                                       {"known-limit", "KNOWN_LIMIT"},
                                       {"unknown", "UNKNOWN"}})
    take(flag, variable);
  std::string out;
  for (const auto& [name, value] : all) out += (out.empty() ? "" : " ") + name + "=" + value;
  return out;
}

}  // namespace tidemark
