// Collectives on tensors over NCCL, with the one thing that NCCL leaves to its caller spelled out:
// who keeps a tensor alive while a collective on another stream still uses it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/parallel/policies.h"

struct ncclComm;

namespace tidemark {

class World;

enum class Reduction { sum, average };

/// NCCL failed, or was asked for something it cannot do. One line: the call, this rank, NCCL's
/// reason. Where NCCL names another rank's failure (ncclRemoteError), PartnerFailed is thrown
/// instead.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An asynchronous collective under way.
class Work {
 public:
  /// Makes the current stream wait for the collective's end (the host goes on), and releases its
  /// tensors.
  void wait();

 private:
  friend class Communicator;
  c10::cuda::CUDAEvent end_;
  std::vector<at::Tensor> stash_;
  bool unstash_first_ = false;
};

/// One NCCL communicator over the ranks of a world. Calls may come from any thread, one at a time.
class Communicator {
 public:
  /// Collective over `world`: every rank constructs its communicator at the same point.
  explicit Communicator(const World& world, Reference reference = Reference::stash);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The stream of asynchronous collectives.
  c10::cuda::CUDAStream stream() const { return stream_; }

  struct Call {
    bool async = false;  // false: on the current stream, ordered by it, nothing to keep
    std::optional<Reference> reference = {};  // of this call alone, instead of the communicator's
    /// Asynchronous: the inputs are complete and the output unused in the order of the
    /// communicator's own stream, so it need not wait for the current one.
    bool inputs_ready = false;
  };
  /// Every call returns its work when asynchronous, else null. Sizes are in elements and must
  /// agree: output = input * size() for all_gather_into, input = output * size() for
  /// reduce_scatter_into.
  std::unique_ptr<Work> all_gather_into(const at::Tensor& output, const at::Tensor& input,
                                        Call call);
  std::unique_ptr<Work> reduce_scatter_into(const at::Tensor& output, const at::Tensor& input,
                                            Reduction reduction, Call call);
  std::unique_ptr<Work> all_reduce(const at::Tensor& tensor, Reduction reduction, Call call);
  std::unique_ptr<Work> broadcast(const at::Tensor& tensor, int root, Call call);
  /// Point to point. Pairs match in the order of the calls; two ranks that both send first and
  /// receive then may wait for each other for ever.
  std::unique_ptr<Work> send(const at::Tensor& tensor, int peer, Call call);
  std::unique_ptr<Work> receive(const at::Tensor& tensor, int peer, Call call);

  /// Calls so far, by operation.
  const std::map<std::string, std::int64_t>& calls() const { return calls_; }
  /// Bytes of their whole tensors: of what is gathered, reduced or sent.
  const std::map<std::string, std::int64_t>& bytes() const { return bytes_; }

 private:
  template <class Launch>
  std::unique_ptr<Work> run(const char* operation, std::vector<at::Tensor> tensors, Call call,
                            Launch launch);
  void check(int result, const std::string& what) const;

  ncclComm* comm_ = nullptr;
  int rank_ = 0, size_ = 1;
  int number_ = 0;         // of the communicators that this rank has made, from 1
  std::int64_t made_ = 0;  // calls on it
  Reference reference_;
  c10::cuda::CUDAStream stream_;
  std::map<std::string, std::int64_t> calls_, bytes_;
};

}  // namespace tidemark
