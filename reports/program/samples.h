// Snapshots of made-up training programs, for tests of what renders them.
#pragma once

#include <filesystem>
#include <string>

#include "harness/memory/snapshot.h"
#include "harness/record/record.h"

namespace tidemark {

/// A model of `layers` layers that trains for `steps` steps, each with `each` activations a layer:
/// forward, backward and optimizer have their phases. `prefix` stands before every name.
/// `mapped`: in expandable segments, and in a private pool. `fails`: the number of the allocation
/// that fails and ends the program, from 1; 0: none. `held`: every third block that is freed is
/// held for another stream until so many further allocations; 0: none.
Snapshot training(int layers, int steps, int each, const std::string& prefix = "",
                  bool mapped = false, std::int64_t fails = 0, std::int64_t held = 0);

/// The same as PyTorch writes it where its ring of events has lost the first `lost`, without what
/// tidemark adds.
Snapshot of_ring(Snapshot snapshot, std::size_t lost);

/// The report of a program with the snapshots rank0, rank1 ..., and the files of its folder.
/// `room`: of its second run, where it ran out of memory.
Report write_program(const std::filesystem::path& folder, const std::vector<Snapshot>& ranks,
                     Bytes capacity = Bytes{80} << 30, const std::vector<Snapshot>& room = {});

/// Folders with the pages of memory snapshots, and the snapshots.
void write_snapshots(const std::filesystem::path& folder);

/// Folders with programs of all sizes; with `large` also some that take seconds.
void write_programs(const std::filesystem::path& folder, bool large);

void write_program_of_512_ranks(const std::filesystem::path& folder);

}  // namespace tidemark
