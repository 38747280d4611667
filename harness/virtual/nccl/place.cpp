#include "harness/virtual/nccl/place.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

namespace tidemark::nccl {

int place_in_job() {
  for (const char* variable :
       {"TIDEMARK_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(variable)) return std::atoi(text);
  }
  return -1;
}

std::vector<int> places_of(std::vector<int> places, const std::vector<int>& processes) {
  std::map<int, int> process_at;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const int process = process_at.emplace(places[rank], processes[rank]).first->second;
    if (places[rank] >= 0 && process == processes[rank]) continue;
    std::iota(places.begin(), places.end(), 0);
    break;
  }
  return places;
}

}  // namespace tidemark::nccl
