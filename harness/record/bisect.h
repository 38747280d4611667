// The record of `tidemark bisect`: the peaks of a program over versions of a package, or over the
// commits of a repository.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/fit.h"

namespace tidemark {

struct BisectVersion {
  std::string version;               // "2.11.0", or the first digits of a commit
  std::string title;                 // of a commit
  std::string state;                 // "ran", "refused", "not installed", "not known", "not run"
  std::string why;                   // of all but the first and the last
  std::string lock;                  // the file beside the result; empty: there is none
  std::vector<std::string> changed;  // other packages than the user's environment has
  std::map<std::string, std::string> packages;  // of its environment, by name
  std::optional<FitRun> run;
  bool ran() const { return state == "ran"; }
};

/// Two versions that ran, none of those between them did, and their peaks differ.
struct BisectChange {
  std::string from, to;
  std::int64_t between = 0;          // versions between them, all of which were refused
  std::vector<std::string> because;  // what differs between their environments
  Bytes reserved = 0, allocated = 0, active = 0;  // by which the peaks differ
  std::vector<AlivePart> parts;                   // they sum to `active`; the largest first
};

struct BisectRecord {
  std::vector<std::string> program;
  RunRecord run;
  std::string package;                       // empty: of commits
  std::string repository;                    // empty: of a package
  std::map<std::string, std::string> fixed;  // other packages that the command names
  std::string grew;                          // "1%": how much two peaks may differ
  std::vector<BisectVersion> versions;       // in their order
  std::vector<BisectChange> changes;
  std::vector<std::string> notes;  // a sentence each
};

}  // namespace tidemark
