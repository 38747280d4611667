#include "harness/ranks/launcher.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "harness/ranks/launch.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::optional<int> number(const char* name) {
  const std::string text = variable(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return {};
  return value;
}

std::string read_all(const std::string& file) { return text_of_file(file.c_str()).value_or(""); }

int parent_of(int process) {
  TextIn status(read_all("/proc/" + std::to_string(process) + "/status"));
  for (std::string word; status >> word;)
    if (int parent = 0; word == "PPid:" && status >> parent) return parent;
  return 0;
}

// MPICH's and Intel's launchers set no name of the job. Their process on each machine is an
// ancestor of this one, and has the address of mpiexec in its command line.
std::string hydra_job() {
  for (int process = getpid(); process > 1; process = parent_of(process)) {
    const std::string words = read_all("/proc/" + std::to_string(process) + "/cmdline");
    std::string job;
    for (const std::string_view flag : {"--control-port", "--upstream-host", "--upstream-port"}) {
      const std::string mark = std::string("\0", 1) + std::string(flag) + std::string("\0", 1);
      const auto at = words.find(mark);
      if (at == std::string::npos) continue;
      job += (job.empty() ? "" : ":") + std::string(words.c_str() + at + mark.size());
    }
    if (!job.empty()) return job;
  }
  return "";
}

std::string slurm_job() {
  const std::string restarts = variable("SLURM_RESTART_COUNT");
  return variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID") +
         (restarts.empty() ? "" : " restart " + restarts);
}

// With the first of the variables for the local rank that is set.
std::optional<Launcher> launcher(const char* name, const char* rank, const char* size,
                                 const char* local) {
  const auto mine = number(rank), all = number(size);
  if (!mine || !all || *mine >= *all) return {};
  return Launcher{name, "", *mine, *all, number(local).value_or(0), true};
}

std::optional<Launcher> torchrun() {
  if (variable("TORCHELASTIC_RUN_ID").empty()) return {};
  auto result = launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK");
  if (!result) return {};
  result->mpi = false;
  result->job = variable("MASTER_ADDR") + ":" + variable("MASTER_PORT") + " restart " +
                variable("TORCHELASTIC_RESTART_COUNT");
  return result;
}

std::optional<Launcher> mpirun() {
  auto result = launcher("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK");
  if (result) result->job = variable("PMIX_NAMESPACE");
  return result;
}

std::optional<Launcher> srun() {
  if (variable("SLURM_STEP_ID").empty()) return {};
  auto result = launcher("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID");
  if (!result) return {};
  result->job = slurm_job();
  result->mpi = number("PMIX_RANK") || number("PMI_RANK");
  return result;
}

std::optional<Launcher> mpiexec() {
  auto result = launcher("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID");
  if (result) result->job = hydra_job();
  return result;
}

// Neither Open MPI nor Slurm: its size is known to MPI alone.
std::optional<Launcher> other() {
  const auto rank = number("PMIX_RANK");
  if (!rank) return {};
  return Launcher{"mpiexec", variable("PMIX_NAMESPACE"), *rank, 0, 0, true};
}

}  // namespace

std::string Launcher::text() const { return job.empty() ? name : name + " " + job; }

std::optional<Launcher> find_launcher() {
  if (launched_by_tidemark()) return {};
  // MPICH's mpiexec starts its processes by srun in an allocation, and says so itself.
  if (!variable("MPI_LOCALNRANKS").empty() && variable("TORCHELASTIC_RUN_ID").empty() &&
      variable("OMPI_COMM_WORLD_RANK").empty())
    if (auto result = mpiexec()) return result;
  for (const auto find : {torchrun, mpirun, srun, mpiexec, other})
    if (auto result = find()) return result;
  return {};
}

}  // namespace tidemark
