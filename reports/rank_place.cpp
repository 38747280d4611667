#include "reports/rank_place.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark {

namespace fs = std::filesystem;

std::string RankPlace::name() const {
  return fmt::format("{}/{}/{}/rank{}", trial, schedule, variant, rank);
}

std::string RankPlace::key() const {
  const bool on_a_clock = schedule == "calibrated" || schedule == "device";
  return fmt::format("{}|{}|{}|{}|{}", trial, on_a_clock ? "a clock" : schedule, params, variant,
                     rank);
}

RankPlace rank_place(const TrialRecord& trial, const std::string& variant, int rank) {
  RankPlace place;
  place.trial =
      fmt::format("{}/{}/r{}/{}", trial.scenario, trial.size, trial.ranks, name_of(trial.mode));
  place.schedule = trial.schedule;
  for (const auto& [name, value] : trial.params)
    place.params += fmt::format("{}={} ", name, setting_text(value));
  place.params += fmt::format("steps={} seed={}", trial.steps, trial.seed);
  place.variant = variant;
  place.rank = rank;
  return place;
}

std::vector<fs::path> files_below(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> out;
  if (!fs::is_directory(folder)) return out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == extension)
      out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

}  // namespace tidemark
