// Changes of a program that need no edit of it, which `tidemark advise` tries.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/fit/runs.h"

namespace tidemark {

/// A change: what it is, and the name by which tidemark_changes.py knows it, or the environment
/// variable that makes it. Of those of one group only one can be made.
struct ProgramChange {
  const char* what;
  const char* name;
  const char* variable = nullptr;
  const char* value = nullptr;
  int group = 0;
  bool same_numbers = true;  // the program computes what it computed
};

std::span<const ProgramChange> all_changes();

/// `one` with these changes made. A setting of the allocator stands after those of the user.
Wanted changed(Wanted one, const std::vector<const ProgramChange*>& changes);

}  // namespace tidemark
