// Runs of a test's own binary with and without randomised addresses.
#pragma once

#include <gtest/gtest.h>
#include <sys/personality.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tidemark::device::testing {

constexpr const char* kLayout = "TIDEMARK_TEST_LAYOUT";

/// What the environment below prints in a process of its own with the layout "random" or "fixed".
inline std::string run_self(const char* layout) {
  const std::string command =
      std::string(kLayout) + "=" + layout + " /proc/" + std::to_string(getpid()) + "/exe";
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  EXPECT_EQ(0, pclose(pipe));
  const auto begin = out.find("begin\n");
  return begin == std::string::npos ? "" : out.substr(begin);
}

/// In a process that run_self has started: prints the program and leaves; without randomisation it
/// starts itself once more.
class Rerun : public ::testing::Environment {
 public:
  explicit Rerun(void (*print)()) : print_(print) {}
  void SetUp() override {
    const char* layout = getenv(kLayout);
    if (!layout) return;
    if (std::string(layout) == "fixed" && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
      personality(ADDR_NO_RANDOMIZE);
      execl("/proc/self/exe", "child", nullptr);
    }
    std::printf("begin\n");  // after whatever gtest has said
    print_();
    fflush(stdout);
    _exit(0);
  }

 private:
  void (*print_)();
};

}  // namespace tidemark::device::testing
