// Memory records of the processes of a program: table and verdicts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tidemark {

/// Verdicts that the user wants of a program's memory.
struct Wishes {
  std::optional<std::int64_t> max_peak;  // bytes allocated, on every device
  bool no_races = false, no_retries = false;
  bool any() const { return max_peak || no_races || no_retries; }
};

/// The records of a folder, by rank; each as python/tidemark_exec.py writes it.
std::vector<nlohmann::json> read_records(const std::filesystem::path& folder);

/// "rank 3", or the process where it has no rank; with the device where it has several.
std::string name_of(const nlohmann::json& record);
std::string place_of(const nlohmann::json& record, const nlohmann::json& device);

/// One line a device: peaks of allocated, active and reserved bytes; retries, ooms, races.
std::string table(const std::vector<nlohmann::json>& records);

/// The lines of the program where it branched by values that are not known (mode known); "" where
/// it did nowhere.
std::string decisions(const std::vector<nlohmann::json>& records);
/// Where values of absent partners were wanted, and where it looked at such values, and what it was
/// told: at most ten lines, the most frequent first.
std::string unknowns(const std::vector<nlohmann::json>& records);

/// One line for each verdict that fails. Where nothing was recorded, or a process was killed, they
/// are not known to hold, which is a failure too.
std::vector<std::string> failures(const std::vector<nlohmann::json>& records, const Wishes& wishes);

}  // namespace tidemark
