# mpi.h of Open MPI and of MPICH's family: TIDEMARK_openmpi_INCLUDE, TIDEMARK_mpich_INCLUDE (harness/ranks). Of the places where
# Debian and RHEL have both, of what FindMPI finds, and of mpi.h on CMAKE_PREFIX_PATH, whichever of the two it is.
if(NOT CMAKE_CROSSCOMPILING) # else it finds this machine's
  find_package(MPI QUIET COMPONENTS C)
endif()
find_path(tidemark_other_mpi mpi.h)
foreach(folder ${MPI_C_INCLUDE_DIRS} ${tidemark_other_mpi} ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include
               ${CMAKE_SYSROOT}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich /usr/include/openmpi-${CMAKE_SYSTEM_PROCESSOR}
               /usr/include/mpich-${CMAKE_SYSTEM_PROCESSOR})
  if(EXISTS ${folder}/mpi.h)
    file(STRINGS ${folder}/mpi.h its REGEX "define (OPEN_MPI|MPICH_NUMVERSION|I_MPI_NUMVERSION)")
    if(its MATCHES "OPEN_MPI")
      set(TIDEMARK_openmpi_INCLUDE ${folder} CACHE PATH "folder of Open MPI's mpi.h")
    elseif(its)
      set(TIDEMARK_mpich_INCLUDE ${folder} CACHE PATH "folder of MPICH's mpi.h")
    endif()
  endif()
endforeach()
