#include "harness/measure/rates/rates.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>

#include "harness/device/platform.h"

namespace tidemark::rates {

Bytes share_of_free(Bytes most) {
  std::size_t left = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&left, &total));
  return static_cast<Bytes>(
      std::bit_floor(std::min<std::size_t>(static_cast<std::size_t>(most), left / 16)));
}

std::vector<Rate> measure_rates(double seconds, const std::function<void(const char*)>& beginning) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::set_device(0);
  set_race_detection(false);
  const auto offered = platform().schedules();
  const bool own_time = std::ranges::find(offered, "device") != offered.end();
  platform().begin(own_time ? "device" : "calibrated", Mode::shapes);
  const Deadline deadline(seconds);
  std::vector<Rate> all;
  struct Part {
    const char* name;
    std::vector<Rate> (*measure)(const Deadline&);
  };
  for (const auto& [name, measure] : {Part{"matrix products", dense_rates},
                                      {"device memory", memory_rates},
                                      {"calls of the host", host_rates},
                                      {"copies over PCIe", pcie_rates},
                                      {"NCCL collectives", link_rates}}) {
    if (beginning) beginning(name);
    for (Rate& rate : measure(deadline)) all.push_back(std::move(rate));
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
  return all;
}

}  // namespace tidemark::rates
