# mpi.h of Open MPI and of MPICH's family: TIDEMARK_openmpi_INCLUDE, TIDEMARK_mpich_INCLUDE (harness/ranks). Of the places where
# Debian and RHEL have both, of what FindMPI finds, and of mpi.h on CMAKE_PREFIX_PATH, whichever of the two it is.
find_package(MPI QUIET COMPONENTS C)
find_path(tidemark_other_mpi mpi.h)
foreach(folder ${MPI_C_INCLUDE_DIRS} ${tidemark_other_mpi} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include
               /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich /usr/include/openmpi-x86_64 /usr/include/mpich-x86_64)
  if(EXISTS ${folder}/mpi.h)
    file(STRINGS ${folder}/mpi.h its REGEX "define (OPEN_MPI|MPICH_NUMVERSION|I_MPI_NUMVERSION)")
    if(its MATCHES "OPEN_MPI")
      set(TIDEMARK_openmpi_INCLUDE ${folder} CACHE PATH "folder of Open MPI's mpi.h")
    elseif(its)
      set(TIDEMARK_mpich_INCLUDE ${folder} CACHE PATH "folder of MPICH's mpi.h")
    endif()
  endif()
endforeach()
