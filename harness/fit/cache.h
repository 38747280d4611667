// Results of runs that stay: the same program with the same inputs runs once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/fit/runs.h"
#include "harness/record/fit.h"

namespace tidemark {

/// A name for everything that decides the result of a run.
class CacheKey {
 public:
  void add(const std::string& text);
  /// The content of each word that names a file, and of the Python, TOML and YAML files in
  /// the folder of each that ends in .py and below it.
  void add_inputs(const std::vector<std::string>& program);
  std::string name() const;  // 32 hexadecimal digits

 private:
  std::uint64_t first_ = 0xcbf29ce484222325, second_ = 0x84222325cbf29ce4;
};

/// The run of that name, if the folder has it, it can be read, and it is what is wanted.
std::optional<FitRun> cached_run(const std::filesystem::path& folder, const std::string& name,
                                 const Wanted& wanted);
/// Why what is in the folder cannot be taken for what this user has put there: it is another
/// user's, or others can write to it or to a folder above it. "" where it can, and where there is
/// none; with `make` it is made then.
std::string not_ours(const std::filesystem::path& folder, bool make = false);
/// Whole or not at all. A folder that cannot be written is one line of warning, once.
void keep_run(const std::filesystem::path& folder, const std::string& name, const FitRun& run);

}  // namespace tidemark
