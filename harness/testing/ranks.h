// The ranks of a test that runs as several processes (RANKS in CMake).
#pragma once

#include "harness/ranks/world.h"

namespace tidemark::testing {

/// The processes of this test; main() makes it.
World& world();

}  // namespace tidemark::testing
