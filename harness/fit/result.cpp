#include "harness/fit/result.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/errors.h"
#include "harness/exec/cause.h"
#include "harness/memory/places.h"
#include "harness/record/file.h"
#include "harness/record/json.h"
#include "harness/record/one_line.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLogRoom = 1 << 20;  // bytes; with less, a log may be cut

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
      if (run.worst.empty() || device.all() > run.reserved)
        run.worst = worst_place(process, device);
      run.allocated = std::max(run.allocated, device.allocated);
      run.active = std::max(run.active, device.active);
      run.reserved = std::max(run.reserved, device.all());
      run.outside = std::max(run.outside, device.outside);
      if (device.limit > 0 && (run.limit == 0 || device.limit < run.limit))
        run.limit = device.limit;
      run.retries += device.retries;
      run.ooms += device.ooms;
    }
  }
  if (const auto most = std::ranges::max_element(program.shared, {}, &SharedGpu::bytes);
      most != program.shared.end())
    run.shared = *most;
  if (program.processes.empty()) run.unknown = "the program has used no CUDA memory";
}

/// Reads the marks: how many processes have stepped and how many repeat, and the figures of a step.
void add_marks(FitRun& run, const fs::path& folder) {
  std::size_t stepped = 0, steady = 0;
  for (const auto& file : entries_of(folder)) {
    const std::string ending = file.path().extension();
    if (ending == ".steady") ++steady;
    if (ending == ".steps") ++stepped;
    std::int64_t figure = 0;
    TextIn(first_bytes(file.path(), 40)) >> figure;
    const std::pair<const char*, std::int64_t*> all[] = {
        {".steps", &run.step_ns}, {".tokens", &run.tokens}, {".logits", &run.logits},
        {".states", &run.states}, {".shards", &run.shards}, {".collectives", &run.collectives}};
    for (const auto& [name, most] : all)
      if (ending == name) *most = std::max(*most, figure);
  }
  run.stepped = stepped > 0;
  run.steady = stepped > 0 && steady == stepped;
}

/// "[rank1]: torch.OutOfMemoryError: CUDA out of memory", the last line of a traceback.
bool is_error(std::string_view line) {
  if (line.starts_with("[rank")) {
    const auto end = line.find_first_not_of("0123456789", 5);
    if (end == std::string_view::npos || end == 5 || !line.substr(end).starts_with("]:"))
      return false;
    line.remove_prefix(end + 2);
    if (line.starts_with(' ')) line.remove_prefix(1);
  }
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto in_name = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  const auto end = std::ranges::find_if_not(line, in_name) - line.begin();
  return end > 0 && is_letter(line.front()) && !line.starts_with("Traceback") &&
         line.substr(static_cast<std::size_t>(end)).starts_with(": ") &&
         line.size() > static_cast<std::size_t>(end) + 2;
}

/// Lines of tidemark's.
bool is_ours(std::string_view line) {
  constexpr std::string_view kBegins[] = {
      "tidemark: ", "error: ", "warning: ", "peaks, ", "report: ", "all parts: "};
  return std::ranges::any_of(kBegins, [&](std::string_view one) { return line.starts_with(one); });
}

void set_killed(FitRun& run, const std::string& how) {
  run.killed = true;
  run.unknown =
      how +
      ", which says nothing about the GPU: the host's memory may be too small for it, and "
      "the kernel kills then";
}

/// How a signal, or a lack of the host's, has ended a process of the program; empty: none has.
std::string killed_by(const FitRun& run, const ProgramRecord& program,
                      const std::optional<Cause>& cause, const std::string& output) {
  if (run.exit_code == 0) return "";
  if (cause && cause->text.find(" was ended by signal ") != std::string::npos) return cause->text;
  constexpr int kSignals = 64;
  if (run.exit_code > 128 && run.exit_code <= 128 + kSignals)
    return fmt::format("a run was ended by signal {}", run.exit_code - 128);
  const bool any = std::ranges::any_of(program.processes, [](const auto& p) { return !p.ended; });
  if (any && output.find("SIGKILL") != std::string::npos)  // torchrun and spawn name it
    return "a process of a run was killed (SIGKILL)";
  for (const char* lack :
       {"ArrayMemoryError", "can't allocate memory", "Cannot allocate memory", "std::bad_alloc",
        "can't start new thread", "Resource temporarily unavailable"})
    if (run.ooms == 0 &&
        (run.last.find(lack) != std::string::npos || run.last.starts_with("MemoryError")))
      return "a run ended with \"" + run.last + "\"";
  return "";
}

}  // namespace

std::string last_line(const std::string& output) {
  TextIn in(output);
  std::string last, raised;
  bool traced = false;
  for (std::string line; std::getline(in, line);) {
    line = one_line(line);
    if (line.empty()) continue;
    if (line.find("Traceback (most recent call last)") != std::string::npos) traced = true;
    if (traced && is_error(line)) {
      raised = line;
      traced = false;
    }
    if (line.starts_with("peaks, ")) break;  // exec's own lines follow
    if (!is_ours(line)) last = line;
  }
  constexpr std::size_t kLongest = 200;
  std::string message = raised.empty() ? last : raised;
  if (message.size() > kLongest) message = one_line(message.substr(0, kLongest)) + " ...";
  return message;
}

FitRun read_run(const FitValues& values, const fs::path& folder, const std::string& killed) {
  const std::string output = output_of(folder);
  FitRun run;
  run.values = values;
  const auto cause = read_cause(folder / "cause");
  if (cause && cause->code == 3 && cause->process.empty())  // a limit of the host
    throw std::runtime_error("fit: " + cause->text);
  if (!fs::exists(folder / "report" / "report.json")) {
    if (!killed.empty()) return set_killed(run, "a run " + killed), run;
    if (cause && cause->code == 2 && cause->process.empty())
      throw UsageError("fit: " + cause->text);
    std::string why = cause ? cause->text : last_line(output);
    std::error_code none;
    if (why.empty() && fs::space(folder, none).available < kLogRoom)
      why = fmt::format("{} is full: make room there, or set TMPDIR to another folder",
                        fs::temp_directory_path(none).string());
    throw std::runtime_error("fit: a run of tidemark exec has left no report: " +
                             (why.empty() ? "it says nothing (tidemark exec runs it alone)" : why));
  }
  const Report report = read_report(folder / "report");
  if (report.trials.size() != 1 || !report.of_programs())
    throw std::runtime_error("fit: a run has another report");
  const ProgramRecord& program = *report.trials.front().program;
  run.exit_code = program.exit_code;
  run.seconds = static_cast<double>(report.run.duration_ns) * 1e-9;
  run.alive = report.trials.front().alive;
  TextIn changed(first_bytes(folder / "changed", 4096));
  std::getline(changed, run.changed);
  add_peaks(run, program);
  add_marks(run, folder / "steady");
  if (run.steady) run.exit_code = 0;
  if (run.exit_code != 0) run.last = last_line(output);
  if (const std::string how = killed_by(run, program, cause, output); !how.empty())
    set_killed(run, how);
  return run;
}

}  // namespace tidemark
