// The place of a record in a run (trial, schedule, variant, rank), by which compare --events and
// compare --numbers find the same place in another run.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

struct RankPlace {
  std::string trial;  // scenario/size/rN/mode
  std::string schedule;
  std::string params;  // "layers=4 steps=3 seed=0": settings that must be the same too
  std::string variant;
  int rank = 0;

  std::string name() const;  // trial/schedule/variant/rank
  /// Equal for the same work in two runs. A real GPU's own schedule (device) is compared
  /// with calibrated.
  std::string key() const;
};

RankPlace rank_place(const TrialRecord& trial, const std::string& variant, int rank);

/// Calls `use` with each record of `first` and that of the same place in `second`. Returns the
/// names of those that are in one alone.
template <class Log>
std::vector<std::string> pair_up(const std::vector<Log>& first, const std::vector<Log>& second,
                                 auto use) {
  std::map<std::string, const Log*> others;
  for (const Log& log : second) others[log.key()] = &log;
  std::set<std::string> met;
  std::vector<std::string> alone;
  for (const Log& log : first) {
    const auto partner = others.find(log.key());
    if (partner == others.end()) {
      alone.push_back(log.name());
      continue;
    }
    met.insert(partner->first);
    use(log, *partner->second);
  }
  for (const auto& [key, log] : others)
    if (!met.contains(key)) alone.push_back(log->name());
  return alone;
}

/// The files below the folder with this extension, in the order of their paths; none where there is
/// no folder.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::string& extension);

}  // namespace tidemark
