// Stand-in for an MPI library that tidemark cannot use: STUB_MPI_NAME is what it says that it is,
// STUB_MPI_VERSION its version of the standard (3), STUB_MPI_LEVEL the support of threads (3, of 0
// to 3). It connects one process alone.
#include <cstdlib>
#include <cstring>

namespace {
int setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}
}  // namespace

extern "C" {
int ompi_mpi_byte, ompi_mpi_comm_null, ompi_mpi_comm_world;

int MPI_Get_library_version(char* text, int* length) {
  const char* name = std::getenv("STUB_MPI_NAME");
  std::strcpy(text, name != nullptr ? name : "Open MPI v4.1.4, a stand-in");
  *length = static_cast<int>(std::strlen(text));
  return 0;
}
int MPI_Get_version(int* version, int* subversion) {
  *version = setting("STUB_MPI_VERSION", 3);
  *subversion = 1;
  return 0;
}
int MPI_Init_thread(int*, char***, int, int* level) {
  *level = setting("STUB_MPI_LEVEL", 3);
  return 0;
}
int MPI_Comm_dup(void*, void**) { return 0; }
int MPI_Comm_rank(void*, int* rank) { return *rank = 0; }
int MPI_Comm_size(void*, int* size) {
  *size = 1;
  return 0;
}
int MPI_Comm_free(void**) { return 0; }
int MPI_Finalize() { return 0; }
int MPI_Abort(void*, int code) { std::_Exit(code); }
int MPI_Iprobe() { return 0; }
int MPI_Irecv() { return 0; }
int MPI_Isend() { return 0; }
int MPI_Recv() { return 0; }
int MPI_Test() { return 0; }
int MPI_Testall() { return 0; }
}
