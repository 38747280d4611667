#include "harness/ranks/submitted.h"

#include <cstdlib>

#include "harness/print.h"
#include "harness/ranks/processes.h"

namespace tidemark {

namespace fs = std::filesystem;
using nlohmann::json;

std::string wrong_parameter(const std::string& option) {
  const auto equals = option.find('=');
  return equals != std::string::npos && equals > 0 ? "" : option + " is not NAME=VALUE";
}

json job_parameters(const std::vector<std::string>& options) {
  json all = json::object();
  for (const std::string& option : options) {  // NAME=VALUE, as options.cpp has checked
    const auto equals = option.find('=');
    const std::string value = option.substr(equals + 1);
    const json number = json::parse(value, nullptr, false);
    all[option.substr(0, equals)] = number.is_number() ? number : json(value);
  }
  return all;
}

int submit_and_wait(const fs::path& jobs) {
  const char* python = std::getenv("TIDEMARK_PYTHON");
  const std::string words = python != nullptr && *python != 0 ? python : "python3";
  const fs::path script =
      fs::read_symlink("/proc/self/exe").parent_path() / "virtual/python/tidemark_jobs.py";
  const ProcessesEnd end = run_processes({{"jobs", {"/usr/bin/env", words, script, jobs}, {}}}, 1,
                                         /*together=*/true, jobs);
  if (end.signal != 0) return 130;
  if (end.code == 127) print(stderr, "error: --executor needs Python: there is no {}\n", words);
  return end.code == 0 || end.code == 2 ? end.code : 3;
}

}  // namespace tidemark
