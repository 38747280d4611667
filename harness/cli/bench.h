// Parts of `tidemark bench`: the benchmarks that it registers.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/options.h"
#include "harness/ranks/world.h"

namespace tidemark {

/// The benchmarks of the pairs: every baseline and fix (controls where they are asked for) of the
/// trials that the options choose, as far as `filter` (the library's, over whole names) takes them.
/// A benchmark measures the memory of a variant and of its baseline once, and times the steps that
/// the library wants. To be called on every rank of `world`, as the library's loop. `failed`
/// becomes true where a row ends in an error. Throws UsageError, and NothingSelected where no pair
/// matches.
void register_pairs(const Options& options, const std::string& filter, World& world, bool& failed);

/// The benchmarks of tidemark itself, for one process.
void register_self(World& world);

}  // namespace tidemark
