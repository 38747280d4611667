// Reading of the variables of mpirun, srun and torchrun, alone and inside one another.
#include "harness/ranks/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace tidemark {
namespace {

struct Started {
  const char* by;
  std::map<std::string, std::string> variables;
  bool ranks;
  int size, local;
};

const Started kStarted[] = {
    {"nothing", {}, false, 0, 0},
    {"mpirun, wherever it stands",
     {{"OMPI_COMM_WORLD_SIZE", "8"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
      {"SLURM_LOCALID", "0"},         // of the allocation's batch script
      {"SLURM_STEP_NUM_TASKS", "2"},  // of the daemons that mpirun has started by srun
      {"LOCAL_RANK", "1"}},
     true,
     8,
     3},
    {"srun with PMIx",
     {{"PMIX_RANK", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}},
     true,
     8,
     1},
    {"MPICH's launchers", {{"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "2"}}, true, 4, 2},
    {"torchrun, no launcher of MPI", {{"LOCAL_RANK", "6"}, {"WORLD_SIZE", "8"}}, false, 0, 6},
};

TEST(Launcher, IsFoundByItsVariables) {
  for (const auto& [by, variables, ranks, size, local] : kStarted) {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_SIZE",
          "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "LOCAL_RANK", "WORLD_SIZE"})
      unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    EXPECT_EQ(under_mpi_launcher(), ranks) << by;
    EXPECT_EQ(launcher_size(), size) << by;
    EXPECT_EQ(local_rank(), local) << by;
  }
}

}  // namespace
}  // namespace tidemark
