// The main() of every test binary: refuses to pass without having run a test, and speaks MPI where
// the test does.
#include <gtest/gtest.h>

#include <cstdio>
#ifdef TIDEMARK_TEST_MPI
#include <mpi.h>
#endif

#include "harness/ranks/leave.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#ifdef TIDEMARK_TEST_MPI
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
#endif
  int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "error: no test was selected\n");
    failed = 4;
  }
#ifdef TIDEMARK_TEST_MPI
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
#endif
  return tidemark::leave(failed);
}
