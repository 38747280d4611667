// The main() of every test binary: refuses to pass without having run a test, and fails on all
// ranks of a test that has several where it fails on one.
#include <gtest/gtest.h>

#include <cstdio>
#ifdef TIDEMARK_TEST_RANKS
#include "harness/ranks/launch.h"
#include "harness/testing/ranks.h"

namespace tidemark::testing {
namespace {
std::unique_ptr<World> the_world;
}
World& world() { return *the_world; }
}  // namespace tidemark::testing
#endif

#include "harness/ranks/leave.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#ifdef TIDEMARK_TEST_RANKS
  auto& world = tidemark::testing::the_world;
  world = std::make_unique<tidemark::World>(tidemark::link_of_launcher());
#endif
  int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "error: no test was selected\n");
    failed = 4;
  }
#ifdef TIDEMARK_TEST_RANKS
  failed = world->worst(failed);
  world.reset();
  failed = tidemark::leave_with(failed);
#endif
  return tidemark::leave(failed);
}
