// The training step: freeze, zero gradients, forward and backward of every microbatch, Adam over
// what has a gradient; the same code for every variant.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "cases/frozen_reshard/setup.h"
#include "harness/measure/recorder.h"
#include "harness/parallel/sharded_adam.h"

namespace tidemark::frozen_reshard {

class Training : public Program {
 public:
  Training(const Trial& trial, const Policy& policy, const World& world);
  ~Training() override;

  void step(int index, Recorder& recorder) override;
  std::vector<Shard> parameters() override;

 private:
  at::Tensor input(int step, std::int64_t microbatch);
  void zero_gradients(int index);
  void forward(int index, std::int64_t microbatch);
  /// False where it used a freed parameter.
  bool backward(int index, std::int64_t microbatch);
  /// What the sharded units tell goes into the record.
  void observe(const char* what, ShardedUnit* unit);
  void gather_finished_unit();

  const Trial& trial_;
  const Policy policy_;
  const Setup setup_;
  const bool numbers_;
  std::unique_ptr<Communicator> communicator_;
  ShardedStep step_;
  LinearChain model_;
  Adam adam_;
  std::vector<ShardedParameter*> parameters_;
  std::vector<at::Tensor> inputs_, losses_;  // by microbatch
  at::Tensor loss_;                          // their mean
  Recorder* recorder_ = nullptr;
  std::int64_t microbatch_ = 0;
};

}  // namespace tidemark::frozen_reshard
