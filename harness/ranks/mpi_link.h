// Entry of the libraries mpi/openmpi.so and mpi/mpich.so, which are mpi_link.cpp compiled for
// either binary interface.
#pragma once

#include "harness/ranks/link.h"

namespace tidemark {

/// Initialises MPI. Returns the link, which the caller deletes (that finalises MPI), or null with
/// one line in `wrong`.
using MakeMpiLink = Link*(std::string& wrong);
inline constexpr const char* kMakeMpiLink = "tidemark_mpi_link";

}  // namespace tidemark
