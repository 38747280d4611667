// The launcher that started this process and others as one job: mpirun, mpiexec, srun or torchrun.
#pragma once

#include <optional>
#include <string>

namespace tidemark {

/// This process as one of a launcher's, from the variables that the launcher sets. No process asks
/// another one, and MPI is not needed.
struct Launcher {
  std::string name;        // of the command: mpirun, mpiexec (MPICH's family), srun, torchrun
  std::string job;         // the same in all its processes, and another in those of the next job
  int rank = 0, size = 1;  // size 0: the launcher does not say
  int local_rank = 0;      // among the processes on this machine
  bool mpi = false;        // MPI can connect its processes: mpirun, mpiexec, srun with PMI

  std::string text() const;  // "mpirun 698810369", for messages
};

/// Empty for a process that was started alone, or by tidemark's own launcher. The innermost
/// launcher counts: torchrun under srun, mpirun in a batch job. (An outer launcher's variables are
/// still set there, with the same value in every process.)
std::optional<Launcher> find_launcher();

}  // namespace tidemark
