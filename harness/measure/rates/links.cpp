#include <ATen/ATen.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "harness/measure/rates/held.h"
#include "harness/measure/rates/rates.h"

namespace tidemark::rates {
namespace {

// So few bytes that they are latency alone, on a bus of bytes a ns too.
constexpr Bytes kTiny = 8, kCopied = Bytes{64} << 20, kGathered = Bytes{256} << 20;

std::vector<Rate> pair_of(const std::string& name, const std::string& why) {
  return {{"links", name + "_gbps", std::nullopt, why},
          {"links", name + "_latency_ns", std::nullopt, why}};
}

/// `time`: ns for so many bytes, which is bytes * `crossings` / rate + `hops` * latency.
std::vector<Rate> link(const std::string& name, const std::string& how, const Deadline& deadline,
                       Bytes most, double crossings, double hops,
                       const std::function<double(Bytes)>& time) {
  auto rates = pair_of(name, how);
  auto &bandwidth = rates[0], &latency = rates[1];
  bandwidth.measured = repeat(deadline, [&] {
    const double longer = time(most);
    return crossings * static_cast<double>(most - kTiny) / (longer - time(kTiny));
  });
  if (bandwidth.measured)
    latency.measured = repeat(deadline, [&] {
      return (time(kTiny) - crossings * kTiny / bandwidth.measured->median) / hops;
    });
  for (Rate& rate : rates)
    if (!rate.measured) rate.how = why_none(deadline);
  return rates;
}

using Pinned = std::unique_ptr<void, decltype(&cudaFreeHost)>;

Pinned pinned(Bytes bytes) {
  void* address = nullptr;
  C10_CUDA_CHECK(cudaHostAlloc(&address, static_cast<std::size_t>(bytes), cudaHostAllocDefault));
  return {address, &cudaFreeHost};
}

void require_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    throw std::runtime_error(fmt::format("{}: {}", what, ncclGetErrorString(result)));
}

/// All GPUs of this process: a communicator and buffers on each, `bytes` of a shard.
class Ring {
 public:
  Ring(int gpus, Bytes bytes) : comms_(static_cast<std::size_t>(gpus)) {
    std::vector<int> devices(comms_.size());
    std::iota(devices.begin(), devices.end(), 0);
    require_nccl(ncclCommInitAll(comms_.data(), gpus, devices.data()), "ncclCommInitAll");
    each([&](std::size_t) {
      const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
      shards_.push_back(at::zeros({bytes / 4}, options));
      wholes_.push_back(at::empty({gpus * bytes / 4}, options));
    });
  }
  ~Ring() {
    for (ncclComm* comm : comms_) ncclCommDestroy(comm);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void gather_and_reduce(Bytes bytes) {
    const auto count = static_cast<std::size_t>(bytes / 4);
    grouped([&](std::size_t i) {
      return ncclAllGather(shards_[i].data_ptr(), wholes_[i].data_ptr(), count, ncclFloat32,
                           comms_[i], stream());
    });
    grouped([&](std::size_t i) {
      return ncclAllReduce(shards_[i].data_ptr(), shards_[i].data_ptr(), count, ncclFloat32,
                           ncclSum, comms_[i], stream());
    });
  }
  void hold(std::int64_t cycles) {
    each([&](std::size_t) { at::cuda::sleep(cycles); });
  }

 private:
  static cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream(); }
  template <class Do>
  void each(Do what) {
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(i));
      what(i);
    }
  }
  template <class Call>
  void grouped(Call call) {
    require_nccl(ncclGroupStart(), "ncclGroupStart");
    each([&](std::size_t i) { require_nccl(call(i), "an NCCL collective"); });
    require_nccl(ncclGroupEnd(), "ncclGroupEnd");
  }

  std::vector<ncclComm_t> comms_;
  std::vector<at::Tensor> shards_, wholes_;
};

}  // namespace

std::vector<Rate> pcie_rates(const Deadline& deadline) {
  const Pinned host = pinned(kCopied);
  const at::Tensor device =
      at::empty({kCopied}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
  const auto copy = [&](void* to, const void* from, Bytes bytes) {
    C10_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                                   c10::cuda::getCurrentCUDAStream()));
  };
  Held held;
  return link("pcie", fmt::format("pinned copies of {} MiB to and from it", kCopied >> 20),
              deadline, kCopied, 2, 2, [&](Bytes bytes) {
                return held.each(
                    [&] {
                      copy(device.data_ptr(), host.get(), bytes);
                      copy(host.get(), device.data_ptr(), bytes);
                    },
                    /*less=*/bytes > kTiny ? 1 : 50, /*more=*/bytes > kTiny ? 2 : 50);
              });
}

std::vector<Rate> link_rates(const Deadline& deadline) {
  const int gpus = c10::cuda::device_count();
  if (gpus < 2) return pair_of("nvlink", "this process sees one GPU");
  const Bytes most = std::min(kGathered, share_of_free(gpus * kGathered) / gpus / 4 * 4);
  if (deadline.over()) return pair_of("nvlink", why_none(deadline));
  try {
    Ring ring(gpus, most);
    Held held([&](std::int64_t cycles) { ring.hold(cycles); });
    // On a ring of n the all-gather sends n-1 shards over each link, in n-1 steps; the all-reduce
    // of as many bytes 2(n-1)/n of them, in 2(n-1) steps.
    const double n = gpus;
    return link(
        "nvlink",
        fmt::format("NCCL all-gather and all-reduce of {} MiB on {} GPUs", most >> 20, gpus),
        deadline, most, (n - 1) + 2 * (n - 1) / n, 3 * (n - 1), [&](Bytes bytes) {
          return held.each([&] { ring.gather_and_reduce(bytes); },
                           /*less=*/bytes > kTiny ? 1 : 20,
                           /*more=*/bytes > kTiny ? 2 : 20);
        });
  } catch (const std::exception& error) {  // what one GPU has said stands
    const std::string what = error.what();
    return pair_of("nvlink", what.substr(0, what.find('\n')));
  }
}

}  // namespace tidemark::rates
