// Flags of `tidemark bisect`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/bisect/search.h"
#include "harness/fit/options.h"

namespace tidemark {

struct BisectOptions {
  FitOptions fit;                   // how programs run
  std::string package;              // its versions are tried; empty: commits are
  std::string repository;           // the folder of commits
  std::vector<std::string> listed;  // in place of a range
  std::string first, last;          // the range; empty: the installed version, and the newest
  std::map<std::string, std::string> fixed;  // NAME=VERSION
  Grew grew;
  bool all = false;
  bool room = true;  // more memory than any GPU has; else the capacity that the command names
  std::string format = "text";
};

/// Reads and checks the words of a command line. Returns an exit code where that was all (--help),
/// else -1. Throws UsageError in one line.
int parse_bisect(int argc, char** argv, BisectOptions& bisect);

}  // namespace tidemark
