// All trials of a run, one after the other, on one rank.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/cli/options.h"
#include "harness/ranks/world.h"
#include "harness/record/record.h"

namespace tidemark {

/// Runs and judges what was planned, and writes into `folder` what every rank writes itself
/// (allocator/, numbers/, snapshots of who runs out of memory); into `session`, what a report can
/// be made of however the ranks end (checkpoint.h). The report is whole where the world leads(). To
/// be called by all ranks of the world.
Report run_all(const std::vector<PlannedTrial>& planned, World& world, const Options& options,
               RunRecord run, const std::filesystem::path& folder,
               const std::filesystem::path& session);

}  // namespace tidemark
