// Commands as jobs of Slurm, or of this machine (--executor), by tidemark_jobs.py.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tidemark {

/// "x is not NAME=VALUE"; empty: it is.
std::string wrong_parameter(const std::string& option);

/// Parameters of submitit, of texts NAME=VALUE that were checked.
nlohmann::json job_parameters(const std::vector<std::string>& options);

/// Runs the jobs of FOLDER/jobs.json, which tidemark_jobs.py describes, and waits. 0 when all have
/// ended, 130 when this process was interrupted; another code, after a line that says why, when
/// nothing was submitted.
int submit_and_wait(const std::filesystem::path& jobs);

}  // namespace tidemark
