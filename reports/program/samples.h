// Snapshots of made-up training programs, for tests of what renders them.
#pragma once

#include <filesystem>
#include <string>

#include "harness/memory/snapshot.h"
#include "harness/record/record.h"

namespace tidemark {

/// A model of `layers` layers that trains for `steps` steps, each with `each` activations a layer:
/// forward, backward and optimizer have their phases. `prefix` stands before every name.
Snapshot training(int layers, int steps, int each, const std::string& prefix = "");

/// The report of a program with the snapshots rank0, rank1 ..., and the files of its folder.
Report write_program(const std::filesystem::path& folder, const std::vector<Snapshot>& ranks,
                     Bytes capacity = Bytes{80} << 30);

/// Folders with programs of all sizes; with `large` also some that take seconds.
void write_programs(const std::filesystem::path& folder, bool large);

}  // namespace tidemark
