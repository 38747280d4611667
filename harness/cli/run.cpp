#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "harness/cli/commands.h"
#include "harness/cli/deliver.h"
#include "harness/cli/dry_run.h"
#include "harness/cli/jobs.h"
#include "harness/cli/prepare.h"
#include "harness/cli/resume.h"
#include "harness/cli/salvage.h"
#include "harness/device/choice.h"
#include "harness/print.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/terminal.h"

namespace tidemark {

namespace fs = std::filesystem;

int run_command(Options& options, int argc, char** argv) {
  const int ranks = options.request.ranks == 0 ? 4 : options.request.ranks;
  const auto [planned, note] = prepare(options, ranks);
  if (options.dry_run) {
    print_plan(planned, options);
    return 0;
  }
  RunRecord record = describe_run(argc, argv);
  if (!options.resume.empty()) Resumed(options.resume, record);
  const std::string id = record.id;
  const fs::path folder = output_folder(options.out, id, options.force);
  setenv(kRunId, id.c_str(), 1);  // the report of the ranks has the folder's name
  print_text(stderr, note);
  if (!options.executor.empty()) {
    record.require_all = options.require_all;
    return run_as_jobs(options, planned, ranks, folder, std::move(record));
  }
  setenv("TIDEMARK_OUT", folder.c_str(), 1);
  describe_terminal(options.color);
  const fs::path session = folder / kUnfinished;
  const int processes = options.as_rank >= 0 ? 1 : ranks;
  std::vector<std::string> command{fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), argv + 1, argv + argc);
  Ended ended = launch(processes, command, session);
  if (!ended.again.empty()) {
    print(stderr, "note: {}: once more, with collectives through the host's memory\n", ended.again);
    choose_staged_collectives();
    ended = launch(processes, command, session);
  }
  if (ended.early)
    if (const auto report = salvage(session, *ended.early)) deliver(*report, folder, options);
  remove_session(folder);
  return ended.code;
}

}  // namespace tidemark
