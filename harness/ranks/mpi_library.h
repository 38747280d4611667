// The MPI of the machine, loaded when a launcher of MPI has started this process. tidemark itself
// is linked to none: MPI has no binary interface that all implementations share, so that there is
// one small library (mpi_link.cpp) for each of the two interfaces that the implementations have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/ranks/link.h"

namespace tidemark {

/// A binary interface of MPI.
struct MpiFamily {
  const char* name;                  // of the library beside the program, mpi/NAME.so
  const char* members;               // implementations that have it
  const char* word;                  // in MPI_Get_library_version of each of them
  std::vector<const char*> sonames;  // under which they are installed
};

/// Open MPI's (from 4 on) and MPICH's (from 3.1 on; Intel's, Cray's and MVAPICH's too).
const std::vector<MpiFamily>& mpi_families();

/// The link over the MPI that belongs to the launcher. It is looked for where TIDEMARK_LIBMPI says,
/// in the loader's places, and beside the mpirun in PATH. Throws Unavailable with exit code 3:
/// there is none, it is another one than the launcher's, it is too old, has no threads, or does not
/// connect the processes that the launcher has started.
std::shared_ptr<Link> mpi_link();

}  // namespace tidemark
