// A program leaves the same trace and gets the same addresses and handles in every run, whatever
// the address space looks like: this binary runs itself with and without randomisation and compares
// the texts that it writes.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

// Everything that could differ, as text.
std::string program(const char* name) {
  tidemark_device_set_schedule(name);
  tidemark_device_reset_clock();
  tidemark_device_trace(1);
  std::string text;
  const auto note = [&](const void* p) {
    char line[32];
    std::snprintf(line, sizeof line, "%p\n", p);
    text += line;
  };
  std::vector<void*> blocks;
  std::vector<cudaStream_t> streams;
  unsigned random = 1;
  for (int i = 0; i < 200; ++i) {
    random = random * 1664525 + 1013904223;
    void* p = nullptr;
    switch (random >> 29) {
      case 0:
        streams.push_back(make_stream(random >> 20 & 1));
        note(streams.back());
        break;
      case 1:
      case 2:
      case 3:
        cudaMalloc(&p, random >> 8);
        blocks.push_back(p);
        note(p);
        break;
      case 4:
        if (!blocks.empty()) {
          cudaFree(blocks[random % blocks.size()]);
          blocks.erase(blocks.begin() + random % blocks.size());
        }
        break;
      default:
        const cudaStream_t s = streams.empty() ? nullptr : streams[random % streams.size()];
        run(s, random >> 12);
        const cudaEvent_t e = make_event();
        note(e);
        cudaEventRecord(e, s);
        cudaStreamWaitEvent(nullptr, e, 0);
        text += cudaGetErrorName(cudaEventQuery(e));
        if (random & 64) cudaEventDestroy(e);
    }
  }
  for (const auto& one : traced()) {
    text += std::string(one.name) + " " + std::to_string(one.stream);
    for (const auto time : {one.enqueued, one.begin, one.end}) text += " " + std::to_string(time);
    text += "\n";
  }
  return text + std::to_string(tidemark_device_now());
}

constexpr const char* kFile = "TIDEMARK_TEST_FILE";

/// Returns the text that the test below writes in a process of its own.
std::string run_self(const std::string& prefix = "") {
  const std::string path = testing::TempDir() + "tidemark_determinism_test";
  const std::string self = "/proc/" + std::to_string(getpid()) + "/exe > /dev/null";
  EXPECT_EQ(0, std::system((std::string(kFile) + "=" + path + " " + prefix + self).c_str()));
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Determinism, RunsUnderDifferentAddressLayoutsAreIdentical) {
  if (const char* path = std::getenv(kFile)) {
    std::ofstream file(path);
    for (const char* name : {"instant", "calibrated", "lagging"}) file << program(name);
    return;
  }
  const std::string first = run_self(), second = run_self(), fixed = run_self("setarch -R ");
  EXPECT_GT(first.size(), 1000u);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, fixed);
}

}  // namespace
