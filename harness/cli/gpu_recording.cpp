// tidemark gpu recording DIR --out FILE
#include <fmt/format.h>

#include <memory>

#include "harness/cli/files.h"
#include "harness/record/json.h"
#include "reports/events/compare_events.h"

namespace tidemark {
namespace {

struct MeasuredArguments {
  std::string folder;
  Output output;
};

int write_measured(const MeasuredArguments& arguments) {
  arguments.output.check();
  const RunRecord run = read_report(arguments.folder).run;
  arguments.output.deliver(
      measured_json(run, arguments.folder),
      fmt::format("the allocator's events of {} {}", run.device_kind, run.profile));
  return 0;
}

}  // namespace

void add_recording(CLI::App& gpu, Act& act) {
  auto* command = gpu.add_subcommand(
      "recording",
      "write the allocator events of a run as one file, to compare other machines with it");
  auto arguments = std::make_shared<MeasuredArguments>();
  command->add_option("dir", arguments->folder, "the output folder of a run with --events")
      ->required();
  command->add_option("--out", arguments->output.out, "write to this file, not to the terminal");
  command->add_flag("--force", arguments->output.force, "--out may replace a file");
  command->footer("exit codes: 0 written, 2 usage or bad input");
  command->callback(
      [arguments, &act] { act = [arguments] { return write_measured(*arguments); }; });
}

}  // namespace tidemark
