// The parts of a random or mutation test: its cases are dealt out to eight parts.
// TIDEMARK_TEST_DRAW chooses one of them (ci/test: by the commit); without it all of them run.
#pragma once

#include <cstdlib>

namespace tidemark::testing {

constexpr int kParts = 8;

/// Whether all parts run.
inline bool whole() { return std::getenv("TIDEMARK_TEST_DRAW") == nullptr; }

/// Whether the case of this number, from 0 on, belongs to a part that runs.
inline bool drawn(int number) {
  return whole() || number % kParts == std::atoi(std::getenv("TIDEMARK_TEST_DRAW")) % kParts;
}

}  // namespace tidemark::testing
