// Workspaces of cuBLAS reach the one who listens, when cuBLAS is given them.
#include "harness/virtual/device/workspaces.h"

#include <gtest/gtest.h>

#include <vector>

namespace tidemark::device {
namespace {

std::vector<const void*> given;

TEST(Workspaces, ReachTheListenerWhenTheyAreGiven) {
  const char memory[2]{};
  give_workspace(&memory[0]);
  EXPECT_TRUE(given.empty());
  tidemark_device_on_workspace([](const void* workspace) { given.push_back(workspace); });
  for (const void* workspace : {&memory[0], &memory[1], &memory[0]}) give_workspace(workspace);
  give_workspace(nullptr);
  EXPECT_EQ(given, (std::vector<const void*>{&memory[0], &memory[1], &memory[0]}));
  tidemark_device_on_workspace(nullptr);
  give_workspace(&memory[1]);
  EXPECT_EQ(given.size(), 3u);
}

}  // namespace
}  // namespace tidemark::device
