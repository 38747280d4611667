// The registry of cuBLAS's workspaces: what PyTorch does before each product leaves one entry.
#include "harness/virtual/device/workspaces.h"

#include <gtest/gtest.h>

#include <vector>

namespace tidemark::device {
namespace {

const char handles[2]{}, streams[3]{}, memory[4]{};

std::vector<const void*> workspaces() {
  std::vector<const void*> all(64);
  all.resize(tidemark_device_workspaces(all.data(), all.size(), 0));
  return all;
}

TEST(Workspaces, StayAsManyAsHandlesHaveStreams) {
  for (const int steps : {1'000, 10'000}) {
    for (int step = 0; step < steps; ++step)
      for (const char& stream : streams)
        set_workspace(&handles[0], &stream, &memory[&stream - streams]);
    EXPECT_EQ(workspaces().size(), 3u) << steps;
  }
  set_workspace(&handles[1], &streams[0], &memory[0]);  // handles may share one
  EXPECT_EQ(workspaces().size(), 3u);
  set_workspace(&handles[0], &streams[2], &memory[3]);
  EXPECT_EQ(workspaces(), (std::vector<const void*>{&memory[0], &memory[1], &memory[3]}));
  set_workspace(&handles[0], &streams[2], nullptr);
  forget_workspaces(&handles[0]);
  EXPECT_EQ(workspaces(), std::vector<const void*>{&memory[0]});
  forget_workspaces(&handles[1]);
  EXPECT_TRUE(workspaces().empty());
}

}  // namespace
}  // namespace tidemark::device
