// Reading of the variables of mpirun, srun and torchrun, alone and inside one another.
#include "harness/ranks/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace tidemark {
namespace {

class Launcher : public ::testing::Test {
 protected:
  void TearDown() override { set({}); }
  static void set(const std::map<std::string, std::string>& variables) {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_SIZE",
          "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "LOCAL_RANK", "WORLD_SIZE"})
      unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
};

TEST_F(Launcher, WithoutOneThereIsOneRank) {
  set({});
  EXPECT_FALSE(under_launcher());
  EXPECT_EQ(launcher_size(), 0);
  EXPECT_EQ(local_rank(), 0);
}

TEST_F(Launcher, MpirunCountsWhereverItStands) {
  set({{"OMPI_COMM_WORLD_SIZE", "8"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
       {"SLURM_LOCALID", "0"},         // of the allocation's batch script
       {"SLURM_STEP_NUM_TASKS", "2"},  // of the daemons that mpirun has started by srun
       {"LOCAL_RANK", "1"}});
  EXPECT_TRUE(under_launcher());
  EXPECT_EQ(launcher_size(), 8);
  EXPECT_EQ(local_rank(), 3);
}

TEST_F(Launcher, SrunWithPmix) {
  set({{"PMIX_RANK", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}});
  EXPECT_TRUE(under_launcher());
  EXPECT_EQ(launcher_size(), 8);
  EXPECT_EQ(local_rank(), 1);
}

TEST_F(Launcher, MpichsLaunchers) {
  set({{"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "2"}});
  EXPECT_TRUE(under_launcher());
  EXPECT_EQ(launcher_size(), 4);
  EXPECT_EQ(local_rank(), 2);
}

TEST_F(Launcher, TorchrunIsNoLauncherOfMpi) {
  set({{"LOCAL_RANK", "6"}, {"WORLD_SIZE", "8"}});
  EXPECT_FALSE(under_launcher());
  EXPECT_EQ(local_rank(), 6);
}

}  // namespace
}  // namespace tidemark
