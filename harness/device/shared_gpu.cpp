#include "harness/device/shared_gpu.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

namespace tidemark {
namespace {

std::string what_failed(const char* call, ncclResult_t result) {
  const std::string last = ncclGetLastError(nullptr);
  return fmt::format("{}: {}{}{}", call, ncclGetErrorString(result), last.empty() ? "" : ": ",
                     last.substr(0, last.find('\n')));
}

// On every rank: empty, or what went wrong.
std::string add_a_number(ncclUniqueId id, int size, int rank, int device) {
  if (auto error = cudaSetDevice(device); error != cudaSuccess) return cudaGetErrorString(error);
  ncclComm_t comm = nullptr;
  if (auto result = ncclCommInitRank(&comm, size, id, rank); result != ncclSuccess)
    return what_failed("ncclCommInitRank", result);
  std::string wrong;
  float number = 1;
  void* on_device = nullptr;
  cudaError_t cuda = cudaMalloc(&on_device, sizeof number);
  if (cuda == cudaSuccess)
    cuda = cudaMemcpy(on_device, &number, sizeof number, cudaMemcpyHostToDevice);
  if (cuda == cudaSuccess) {
    if (auto result = ncclAllReduce(on_device, on_device, 1, ncclFloat32, ncclSum, comm, nullptr);
        result != ncclSuccess)
      wrong = what_failed("ncclAllReduce", result);
    cuda = cudaMemcpy(&number, on_device, sizeof number, cudaMemcpyDeviceToHost);
  }
  if (wrong.empty() && cuda != cudaSuccess) wrong = cudaGetErrorString(cuda);
  if (wrong.empty() && number != static_cast<float>(size))
    wrong = fmt::format("ncclAllReduce of 1 on each of {} ranks came to {}", size, number);
  cudaFree(on_device);
  wrong.empty() ? ncclCommDestroy(comm) : ncclCommAbort(comm);
  return wrong;
}

}  // namespace

void require_collectives(const World& world, int timeout) {
  ncclUniqueId id{};
  std::string wrong;
  if (world.leads())
    if (auto result = ncclGetUniqueId(&id); result != ncclSuccess)
      wrong = what_failed("ncclGetUniqueId", result);
  const std::string bytes = world.broadcast({id.internal, sizeof id.internal});
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);

  int device = 0;
  cudaGetDevice(&device);
  if (world.worst(wrong.empty() ? 0 : 1) == 0) {
    auto task = std::make_shared<std::packaged_task<std::string()>>(
        [=, size = world.size(), rank = world.rank()] {
          return add_a_number(id, size, rank, device);
        });
    auto answer = task->get_future();
    std::thread([task] { (*task)(); }).detach();
    wrong = answer.wait_for(std::chrono::seconds(timeout)) == std::future_status::ready
                ? answer.get()
                : fmt::format("no answer within {} s", timeout);
  }
  const bool refused = world.worst(wrong.empty() ? 0 : 1) != 0;
  const auto all = world.gather(wrong);
  if (!refused) return;
  std::string why;
  for (std::size_t rank = 0; rank < all.size() && why.empty(); ++rank)
    if (!all[rank].empty()) why = fmt::format("rank {}: {}", rank, all[rank]);
  throw CollectivesRefused("NCCL refuses ranks that share a GPU (" + why + ")");
}

}  // namespace tidemark
