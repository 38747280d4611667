// An operator that is computed later: in a CUDA graph, again at each launch, or when its signals
// are set (signalled_matmul.cpp). It is kept by the addresses of its tensors, not by the tensors,
// so that nothing stays alive for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/virtual/operators/operators.h"
#include "harness/virtual/operators/signature.h"
#include "harness/virtual/operators/values.h"

namespace tidemark::operators {

/// Waits for what collectives bring to the current stream of the arguments' device.
void await_collectives(const std::vector<c10::IValue>& arguments);
/// True if the current stream of the arguments' device is being captured.
bool is_captured(const std::vector<c10::IValue>& arguments);
/// The device of the first CUDA tensor among them, or the current one.
c10::DeviceIndex device_of(const std::vector<c10::IValue>& arguments);

class Recorded {
 public:
  /// `arguments` and `outputs` are the device's. Values that are on the host are those of now, as
  /// in the arguments of a kernel; the host's side of a copy is memory that is read at each launch.
  Recorded(const c10::OperatorHandle& op, const Signature& signature, HostKernel compose,
           const std::vector<c10::IValue>& arguments, const std::vector<c10::IValue>& outputs,
           std::optional<CapturedRandom> random);

  /// Mode known: what it reads and writes. Computed only where all that it reads is known.
  struct Knowledge {
    bool computes = false;
    std::vector<Place> reads, writes;
  };
  std::optional<Knowledge> knowledge = {};

  void launch();

  /// Gives it to the graph that the thread's operator was captured into; false where there is none.
  static bool keep(std::unique_ptr<Recorded>& recorded);
  /// Puts it into the current stream of the signals' device, where it is launched when all signals
  /// are set.
  static void await(std::unique_ptr<Recorded> recorded, const at::Tensor& signals);

 private:
  void compute();

  c10::OperatorHandle op_;
  std::string name_;
  HostKernel compose_;
  std::vector<bool> fresh_;
  int generator_;
  torch::jit::Stack host_;
  std::vector<c10::IValue> outputs_;  // aliases of them
  std::optional<CapturedRandom> random_;
};

}  // namespace tidemark::operators
