// Environments of `tidemark bisect`: one of each version, made by uv (tidemark_environments.py).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/bisect/options.h"

namespace tidemark {

/// The versions of a range, in their order.
struct Versions {
  std::vector<std::string> names, titles;                    // titles: of commits
  std::vector<std::pair<std::string, std::string>> skipped;  // with the reason
};

/// The environment of a version.
struct Environment {
  std::string skipped;                          // why there is none; empty: there is one
  std::filesystem::path folder, lock;           // of Python; its lock file
  std::filesystem::path beside;                 // for PYTHONPATH; may be empty
  std::filesystem::path files;                  // of a commit; may be empty
  std::map<std::string, std::string> packages;  // by name
  std::vector<std::string> changed;             // others than the user's environment has
};

class Environments {
 public:
  /// `python` is that of the user's environment.
  Environments(const BisectOptions& bisect, std::filesystem::path python)
      : bisect_(bisect), python_(std::move(python)) {}

  /// Throws UsageError, or Unavailable where the network, the disk or uv is lacking.
  Versions versions() const;
  /// Made where it is not there. Throws as `versions` does.
  Environment make(const std::string& version) const;

  /// The command with its words in the place of those of the user's environment, and the variables
  /// of the run.
  std::vector<std::string> program(const Environment& of) const;
  std::map<std::string, std::string> variables(const Environment& of) const;

 private:
  std::string ask(const std::string& act, const std::string& request) const;

  const BisectOptions& bisect_;
  std::filesystem::path python_;
};

}  // namespace tidemark
