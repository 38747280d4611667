#include "harness/fit/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "harness/errors.h"
#include "harness/exec/cause.h"
#include "harness/record/file.h"
#include "harness/record/json.h"
#include "harness/record/one_line.h"
#include "reports/program/places.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

std::string output_of(const fs::path& folder) {
  try {
    return read_bytes(folder / "log");
  } catch (const std::runtime_error&) {
    return "";
  }
}

/// Without the number of the process, which is another one in each run.
std::string worst_place(const ProcessRecord& process, const DeviceRecord& device) {
  const std::string who = process.rank ? name_of(process) : "the process";
  return device.device == 0 ? who : fmt::format("{} cuda:{}", who, device.device);
}

void add_peaks(FitRun& run, const ProgramRecord& program) {
  for (const ProcessRecord& process : program.processes) {
    if (!process.collectives.empty()) run.nccl = true;
    if (process.devices.empty())
      run.unknown = name_of(process) + " used CUDA memory and recorded no peaks";
    for (const DeviceRecord& device : process.devices) {
      if (run.worst.empty() || device.reserved > run.reserved)
        run.worst = worst_place(process, device);
      run.allocated = std::max(run.allocated, device.allocated);
      run.active = std::max(run.active, device.active);
      run.reserved = std::max(run.reserved, device.reserved);
      run.retries += device.retries;
      run.ooms += device.ooms;
    }
  }
  if (program.processes.empty()) run.unknown = "the program has used no CUDA memory";
}

/// Reads the marks: how many processes have stepped and how many repeat, and the figures of a step.
void add_marks(FitRun& run, const fs::path& folder) {
  std::size_t stepped = 0, steady = 0;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(folder, none)) {
    const std::string ending = file.path().extension();
    if (ending == ".steady") ++steady;
    if (ending == ".steps") ++stepped;
    std::int64_t figure = 0;
    std::ifstream(file.path()) >> figure;
    const std::pair<const char*, std::int64_t*> all[] = {
        {".steps", &run.step_ns}, {".tokens", &run.tokens}, {".logits", &run.logits},
        {".states", &run.states}, {".shards", &run.shards}, {".collectives", &run.collectives}};
    for (const auto& [name, most] : all)
      if (ending == name) *most = std::max(*most, figure);
  }
  run.stepped = stepped > 0;
  run.steady = stepped > 0 && steady == stepped;
}

}  // namespace

std::string last_line(const std::string& output) {
  static const std::regex error(
      R"((\[rank\d+\]:? ?)?([A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)?): .+)");
  static const std::regex ours("(tidemark|error|warning): .*|peaks, .*|report: .*|all parts: .*");
  std::istringstream in(output);
  std::string last, raised;
  bool traced = false;
  for (std::string line; std::getline(in, line);) {
    line = one_line(line);
    if (line.empty()) continue;
    if (line.find("Traceback (most recent call last)") != std::string::npos) traced = true;
    if (traced && line.front() != ' ' && std::regex_match(line, error) &&
        line.find("Traceback") == std::string::npos) {
      raised = line;
      traced = false;
    }
    if (line.starts_with("peaks, ")) break;  // exec's own lines follow
    if (!std::regex_match(line, ours)) last = line;
  }
  constexpr std::size_t kLongest = 200;
  std::string message = raised.empty() ? last : raised;
  if (message.size() > kLongest) message = one_line(message.substr(0, kLongest)) + " ...";
  return message;
}

FitRun read_run(const FitValues& values, const fs::path& folder) {
  const std::string output = output_of(folder);
  FitRun run;
  run.values = values;
  if (!fs::exists(folder / "report" / "report.json")) {
    const auto cause = read_cause(folder / "cause");
    if (cause && cause->code == 2 && cause->process.empty())
      throw UsageError("fit: " + cause->text);
    throw std::runtime_error("fit: a run of tidemark exec has left no report: " +
                             (cause ? cause->text : last_line(output)));
  }
  const Report report = read_report(folder / "report");
  if (report.trials.size() != 1 || !report.of_programs())
    throw std::runtime_error("fit: a run has another report");
  const ProgramRecord& program = *report.trials.front().program;
  run.exit_code = program.exit_code;
  run.seconds = static_cast<double>(report.run.duration_ns) * 1e-9;
  run.alive = report.trials.front().alive;
  std::ifstream changed(folder / "changed");
  std::getline(changed, run.changed);
  add_peaks(run, program);
  add_marks(run, folder / "steady");
  if (run.steady) run.exit_code = 0;
  if (run.exit_code != 0) run.last = last_line(output);
  return run;
}

}  // namespace tidemark
