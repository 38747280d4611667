// tidemark snapshot replay
#include <fmt/format.h>

#include <memory>

#include "harness/cli/files.h"
#include "harness/cli/replay_snapshot.h"

namespace tidemark {

void add_snapshot_replay(CLI::App& app, Act& act) {
  auto* command =
      app.get_subcommand("snapshot")
          ->add_subcommand("replay",
                           "repeat the allocations and frees of a recording in PyTorch's "
                           "allocator on the virtual device, and compare the segments");
  auto file = std::make_shared<std::string>();
  command
      ->add_option("file", *file,
                   "a snapshot with a trace (torch.cuda.memory._record_memory_history), or a "
                   "recording of reports/measured")
      ->required();
  command->footer(
      "exit codes: 0 the segments are as recorded, 1 they are not, 2 usage or bad input");
  command->callback([file, &act] {
    act = [file] {
      const Snapshot snapshot = read_snapshot(*file);
      try {
        const SnapshotReplay replay = replay_snapshot(snapshot);
        fmt::print("{}", replay.text(*file));
        return replay.exit_code();
      } catch (const SnapshotError& error) {
        throw SnapshotError(*file + ": " + error.what());
      }
    };
  });
}

}  // namespace tidemark
