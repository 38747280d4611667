#include "harness/parallel/communicator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <nccl.h>

#include <cstring>
#include <exception>

#include "harness/errors.h"
#include "harness/parallel/fault.h"
#include "harness/parallel/live_communicators.h"
#include "harness/ranks/flight_recorder.h"
#include "harness/ranks/world.h"

namespace tidemark {
namespace {

ncclDataType_t type_of(const at::Tensor& tensor) {
  static const std::map<at::ScalarType, ncclDataType_t> kTypes{
      {at::kFloat, ncclFloat32},     {at::kDouble, ncclFloat64}, {at::kHalf, ncclFloat16},
      {at::kBFloat16, ncclBfloat16}, {at::kInt, ncclInt32},      {at::kLong, ncclInt64},
      {at::kByte, ncclUint8}};
  const auto type = kTypes.find(tensor.scalar_type());
  if (type != kTypes.end()) return type->second;
  throw CommunicationError(fmt::format("NCCL has no element type for {}; convert the tensor first",
                                       c10::toString(tensor.scalar_type())));
}

ncclRedOp_t op_of(Reduction reduction) { return reduction == Reduction::sum ? ncclSum : ncclAvg; }

std::size_t count(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

int communicators = 0;  // made by this process

void require(bool holds, const std::string& what) {
  if (!holds) throw CommunicationError(what);
}

// A watchdog that is ending this process may have let go of the thread that comes here.
void require_alive(const char* call) {
  require(!live_communicators::aborted(),
          fmt::format("{}: this process has aborted its communicators", call));
}

}  // namespace

void Work::wait() {
  if (unstash_first_) stash_.clear();
  end_.block(c10::cuda::getCurrentCUDAStream());
  stash_.clear();
}

Communicator::Communicator(const World& world, Reference reference)
    : rank_(world.rank()),
      size_(world.size()),
      number_(++communicators),
      reference_(reference),
      stream_(c10::cuda::getStreamFromPool(false)) {
  require_alive("a communicator");
  maybe_fault(rank_, "communicator");
  ncclUniqueId id{};
  if (world.leads()) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  // A rank that fails before it gets here must not leave the others waiting in NCCL.
  const std::string bytes = world.meet({id.internal, sizeof id.internal});
  require(bytes.size() == sizeof id.internal, "the communicator's unique id arrived damaged");
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  check(ncclCommInitRank(&comm_, size_, id, rank_), "ncclCommInitRank");
  live_communicators::add(comm_, fmt::format("communicator {} of {} ranks", number_, size_));
}

Communicator::~Communicator() {
  if (!comm_ || !live_communicators::take(comm_)) return;
  // While an error unwinds, the other ranks may never come: do not wait for them.
  if (std::uncaught_exceptions() > 0) {
    ncclCommAbort(comm_);
  } else {
    ncclCommDestroy(comm_);
  }
}

void Communicator::check(int result, const std::string& what) const {
  if (result == ncclSuccess) return;
  const char* last = ncclGetLastError(comm_);
  const std::string text = fmt::format("{} on rank {} of {}: {}{}{}", what, rank_, size_,
                                       ncclGetErrorString(static_cast<ncclResult_t>(result)),
                                       last && *last ? ": " : "", last ? last : "");
  if (result == ncclRemoteError) throw PartnerFailed(text);
  throw CommunicationError(text);
}

template <class Launch>
std::unique_ptr<Work> Communicator::run(const char* operation, std::vector<at::Tensor> tensors,
                                        Call call, Launch launch) {
  for (const auto& t : tensors) {
    require(
        t.is_cuda() && t.is_contiguous(),
        fmt::format("{} on rank {}: tensors must be contiguous and on the GPU", operation, rank_));
  }
  maybe_fault(rank_, operation);
  require_alive(operation);
  flight::enter(fmt::format("{} {} of {} x {} on communicator {} of {} ranks, its call {}",
                            operation, calls_[operation] + 1, tensors.back().numel(),
                            c10::toString(tensors.back().scalar_type()), number_, size_, ++made_));
  const auto current = c10::cuda::getCurrentCUDAStream();
  const auto stream = call.async ? stream_ : current;
  if (call.async && !call.inputs_ready) {
    c10::cuda::CUDAEvent ready;
    ready.record(current);
    ready.block(stream);
  }
  check(launch(stream.stream()), fmt::format("{} of {} x {}", operation, tensors.back().numel(),
                                             c10::toString(tensors.back().scalar_type())));
  ++calls_[operation];
  std::size_t bytes = 0;
  for (const auto& t : tensors) bytes = std::max(bytes, t.nbytes());
  bytes_[operation] += static_cast<std::int64_t>(bytes);
  flight::leave();
  if (!call.async) return nullptr;

  auto work = std::make_unique<Work>();
  work->end_.record(stream);
  switch (call.reference.value_or(reference_)) {
    case Reference::record_stream:
      for (const auto& t : tensors) {
        c10::cuda::CUDACachingAllocator::recordStream(t.storage().data_ptr(), stream);
      }
      break;
    case Reference::unstash_before_wait:
      work->unstash_first_ = true;
      [[fallthrough]];
    case Reference::stash:
      work->stash_ = std::move(tensors);
      break;
    case Reference::none:
      break;
  }
  return work;
}

std::unique_ptr<Work> Communicator::all_gather_into(const at::Tensor& output,
                                                    const at::Tensor& input, Call call) {
  require(
      output.numel() == input.numel() * size_ && output.dtype() == input.dtype(),
      fmt::format("all_gather on rank {}: {} x {} into {} x {} on {} ranks", rank_, input.numel(),
                  input.dtype().name(), output.numel(), output.dtype().name(), size_));
  return run("all_gather", {output, input}, call, [&](cudaStream_t stream) {
    return ncclAllGather(input.const_data_ptr(), output.mutable_data_ptr(), count(input),
                         type_of(input), comm_, stream);
  });
}

std::unique_ptr<Work> Communicator::reduce_scatter_into(const at::Tensor& output,
                                                        const at::Tensor& input,
                                                        Reduction reduction, Call call) {
  require(input.numel() == output.numel() * size_ && output.dtype() == input.dtype(),
          fmt::format("reduce_scatter on rank {}: {} x {} into {} x {} on {} ranks", rank_,
                      input.numel(), input.dtype().name(), output.numel(), output.dtype().name(),
                      size_));
  return run("reduce_scatter", {input, output}, call, [&](cudaStream_t stream) {
    return ncclReduceScatter(input.const_data_ptr(), output.mutable_data_ptr(), count(output),
                             type_of(input), op_of(reduction), comm_, stream);
  });
}

std::unique_ptr<Work> Communicator::all_reduce(const at::Tensor& tensor, Reduction reduction,
                                               Call call) {
  return run("all_reduce", {tensor}, call, [&](cudaStream_t stream) {
    return ncclAllReduce(tensor.const_data_ptr(), tensor.mutable_data_ptr(), count(tensor),
                         type_of(tensor), op_of(reduction), comm_, stream);
  });
}

std::unique_ptr<Work> Communicator::broadcast(const at::Tensor& tensor, int root, Call call) {
  require(root >= 0 && root < size_, fmt::format("broadcast: root {} of {} ranks", root, size_));
  return run("broadcast", {tensor}, call, [&](cudaStream_t stream) {
    return ncclBroadcast(tensor.const_data_ptr(), tensor.mutable_data_ptr(), count(tensor),
                         type_of(tensor), root, comm_, stream);
  });
}

std::unique_ptr<Work> Communicator::send(const at::Tensor& tensor, int peer, Call call) {
  require(peer >= 0 && peer < size_, fmt::format("send: to rank {} of {}", peer, size_));
  return run("send", {tensor}, call, [&](cudaStream_t stream) {
    return ncclSend(tensor.const_data_ptr(), count(tensor), type_of(tensor), peer, comm_, stream);
  });
}

std::unique_ptr<Work> Communicator::receive(const at::Tensor& tensor, int peer, Call call) {
  require(peer >= 0 && peer < size_, fmt::format("receive: from rank {} of {}", peer, size_));
  return run("receive", {tensor}, call, [&](cudaStream_t stream) {
    return ncclRecv(tensor.mutable_data_ptr(), count(tensor), type_of(tensor), peer, comm_, stream);
  });
}

}  // namespace tidemark
