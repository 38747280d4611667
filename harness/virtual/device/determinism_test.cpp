// The same program leaves the same trace and gets the same addresses and handles, whatever the
// address space looks like: this binary runs itself with and without randomisation and compares
// what it prints.
#include <sys/personality.h>
#include <unistd.h>

#include <cstdio>
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
  std::string trace(tidemark_device_read_trace(nullptr, 0) + 1, 0);
  tidemark_device_read_trace(trace.data(), trace.size());
  return text + trace + std::to_string(tidemark_device_now());
}

std::string run_self(bool randomised) {
  const char* flag = randomised ? "random" : "fixed";
  const std::string command = std::string("TIDEMARK_TEST_LAYOUT=") + flag + " " + "/proc/" +
                              std::to_string(getpid()) + "/exe";
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  EXPECT_EQ(0, pclose(pipe));
  return out;
}

// Before main(): a run that was started by the test prints and leaves; without randomisation it
// starts itself once more.
const bool child = [] {
  const char* layout = getenv("TIDEMARK_TEST_LAYOUT");
  if (!layout) return false;
  if (std::string(layout) == "fixed" && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
    personality(ADDR_NO_RANDOMIZE);
    execl("/proc/self/exe", "child", nullptr);
  }
  std::string all;
  for (const char* name : {"instant", "calibrated", "lagging"}) all += program(name);
  fwrite(all.data(), 1, all.size(), stdout);
  fflush(stdout);
  _exit(0);
}();

TEST(Determinism, RunsUnderDifferentAddressLayoutsAreIdentical) {
  const std::string first = run_self(true), second = run_self(true), fixed = run_self(false);
  EXPECT_GT(first.size(), 1000u);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, fixed);
}

}  // namespace
