// The sanitizers of ci/asan and ci/tsan at work: a build with a sanitizer finds the mistake that it
// is for. Skipped in any other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "harness/ranks/leave.h"

namespace tidemark {
namespace {

void unordered_writes() {
  volatile int shared = 0;
  std::thread other([&] { shared = 1; });
  shared = 2;
  other.join();
}

void use_after_free() {
  auto* memory = static_cast<volatile char*>(std::malloc(16));
  std::free(const_cast<char*>(memory));
  memory[0] = 1;
}

bool failed(int status) { return !testing::ExitedWithCode(0)(status); }

TEST(Sanitizer, FindsWhatItIsFor) {
  if (!kSanitized) GTEST_SKIP() << "not compiled with a sanitizer";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        unordered_writes();
        use_after_free();
        std::exit(0);
      },
      failed, "data race|heap-use-after-free");
}

}  // namespace
}  // namespace tidemark
