// Reading of the variables of mpirun, mpiexec, srun and torchrun, alone and inside one another.
#include "harness/ranks/launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "harness/ranks/launch.h"

namespace tidemark {
namespace {

using Variables = std::map<std::string, std::string>;

struct Started {
  const char* by;
  Variables variables;
  const char* text;  // "" for none
  int rank, size, local;
  bool mpi;
};

const Variables kTask{{"SLURM_JOB_ID", "7"},
                      {"SLURM_STEP_ID", "2"},
                      {"SLURM_PROCID", "5"},
                      {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_LOCALID", "1"}};

Variables with(Variables some, const Variables& more) {
  for (const auto& [name, value] : more) some[name] = value;
  return some;
}

const Started kStarted[] = {
    {"nothing", {}, "", 0, 0, 0, false},
    {"a batch script", {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}, "", 0, 0, 0, false},
    {"mpirun, whose daemons srun has started, and torchrun's variables by hand",
     with(kTask, {{"OMPI_COMM_WORLD_RANK", "4"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                  {"PMIX_NAMESPACE", "44"},
                  {"PMIX_RANK", "4"},
                  {"LOCAL_RANK", "1"}}),
     "mpirun 44", 4, 8, 3, true},
    {"srun", kTask, "srun 7.2", 5, 8, 1, false},
    {"srun with PMIx", with(kTask, {{"PMIX_RANK", "5"}}), "srun 7.2", 5, 8, 1, true},
    {"srun, the job once requeued", with(kTask, {{"SLURM_RESTART_COUNT", "1"}}),
     "srun 7.2 restart 1", 5, 8, 1, false},
    {"MPICH's launchers, whose proxies srun has started",
     with(kTask, {{"PMI_RANK", "3"},
                  {"PMI_SIZE", "4"},
                  {"MPI_LOCALRANKID", "2"},
                  {"MPI_LOCALNRANKS", "4"}}),
     "mpiexec", 3, 4, 2, true},
    {"Cray's launchers", {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}, "mpiexec", 3, 4, 0, true},
    {"PMIx alone", {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "x"}}, "mpiexec x", 3, 0, 0, true},
    {"torchrun under srun",
     with(kTask, {{"TORCHELASTIC_RUN_ID", "none"},
                  {"TORCHELASTIC_RESTART_COUNT", "0"},
                  {"MASTER_ADDR", "a"},
                  {"MASTER_PORT", "1"},
                  {"RANK", "9"},
                  {"WORLD_SIZE", "16"},
                  {"LOCAL_RANK", "6"}}),
     "torchrun a:1 restart 0", 9, 16, 6, false},
    {"a rank that no job has",
     {{"OMPI_COMM_WORLD_RANK", "8"}, {"OMPI_COMM_WORLD_SIZE", "8"}},
     "",
     0,
     0,
     0,
     false},
};

void forget(const Variables& variables) {
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
}

TEST(Launcher, IsFoundByItsVariables) {
  for (const Started& started : kStarted) forget(started.variables);
  for (const auto& [by, variables, text, rank, size, local, mpi] : kStarted) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    const auto launcher = find_launcher();
    EXPECT_EQ(launcher ? launcher->text() : "", text) << by;
    EXPECT_EQ(local_rank(), local) << by;
    if (launcher) {
      EXPECT_EQ(launcher->rank, rank) << by;
      EXPECT_EQ(launcher->size, size) << by;
      EXPECT_EQ(launcher->mpi, mpi) << by;
    }
    forget(variables);
  }
}

TEST(Launcher, OwnOneIsNone) {
  setenv("TIDEMARK_SESSION", "x", 1);
  setenv("TIDEMARK_RANK", "2", 1);
  for (const auto& [name, value] : kTask) setenv(name.c_str(), value.c_str(), 1);
  EXPECT_FALSE(find_launcher());
  EXPECT_EQ(local_rank(), 2);
  forget(kTask);
}

}  // namespace
}  // namespace tidemark
