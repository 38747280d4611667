// Checks and settings before a run, the same in the launching process and in a rank that another
// launcher started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/cli/options.h"
#include "harness/ranks/world.h"
#include "harness/run/plan.h"

namespace tidemark {

/// Checks the platform's flags, exports them to what reads the environment (the virtual device,
/// PyTorch's allocator), plans the trials on `ranks` ranks where none are asked for, and gives each
/// the virtual GPUs that it needs: rank 0 of `world` computes them for all, since every rank of
/// every variant is replayed for that. Throws UsageError, NothingSelected.
struct Prepared {
  std::vector<PlannedTrial> planned;
  std::string note;  // for stderr, once nothing can go wrong any more; usually empty
};
Prepared prepare(const Options& options, int ranks, const World& world = World());

/// Makes the output folder before anything runs, so that an unwritable place is found at once;
/// never one that has something in it, but an earlier report with `force`, which is removed. Throws
/// UsageError.
std::filesystem::path output_folder(const std::string& wanted, const std::string& id, bool force);

}  // namespace tidemark
