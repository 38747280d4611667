// Settings of this process's partners, from the environment.
#include <cstdlib>
#include <string_view>

#include "harness/virtual/nccl/mpi_world.h"

namespace tidemark::nccl {

bool declared_alone() {
  const char* text = std::getenv("TIDEMARK_NCCL_ALONE");
  return text != nullptr && std::string_view(text) == "1";
}

std::chrono::duration<double> time_limit() {
  const char* text = std::getenv("TIDEMARK_TIMEOUT");
  double seconds = text == nullptr ? 0 : std::atof(text);
  return std::chrono::duration<double>(seconds > 0 ? seconds : 300);
}

}  // namespace tidemark::nccl
