// Variables of `tidemark fit`: what --vary says, and where their values go.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/record/fit.h"

namespace tidemark {

struct Variable {
  enum class Place { word, environment, file };
  FitVariable values;
  Place place = Place::word;
  std::filesystem::path file;  // TOML or JSON
  std::string key;             // "training.batch_size" in the file, or the environment's variable
};

/// Reads NAME=VALUES, env:NAME=VALUES or FILE:KEY=VALUES. VALUES is a range, 1..64, 8..64:8 (a
/// step) or 1..64:x2 (each the double of the one before), or a list, a,b,c. A file's variable is
/// named by its key. Throws UsageError.
Variable parse_variable(const std::string& text);

/// Throws UsageError where a variable has no place in the command, where two have one name, or
/// where more than one is searched.
void check_variables(const std::vector<Variable>& all, const std::vector<std::string>& program);

/// The command with the values in it.
struct Substituted {
  std::vector<std::string> program;
  std::map<std::string, std::string> environment;
};
/// A file with variables is copied into `folder` with the values in it, and the copy takes its
/// place in the command. Throws UsageError.
Substituted substitute(const std::vector<Variable>& all, const FitValues& values,
                       const std::vector<std::string>& program,
                       const std::filesystem::path& folder);

/// All combinations of the listed values, in order; one without a value if there is no list.
std::vector<FitValues> combinations(const std::vector<Variable>& all);

}  // namespace tidemark
