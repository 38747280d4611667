// The training step: zero gradients, forward, backward, Adam; the same code for every variant.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "cases/fsdp_prefetch/model.h"
#include "cases/fsdp_prefetch/variants.h"
#include "harness/parallel/sharded_adam.h"
#include "harness/scenario.h"

namespace tidemark::fsdp_prefetch {

class Training : public Program {
 public:
  Training(const Trial& trial, const Layout& layout, const World& world);
  ~Training() override;

  void step(int index, Recorder& recorder) override;
  std::vector<Shard> parameters() override;

 private:
  at::Tensor input(int index);

  const Trial& trial_;
  const bool numbers_;
  std::unique_ptr<Communicator> communicator_;
  ShardedStep step_;
  MultiMlp model_;
  Adam adam_;
  std::vector<ShardedParameter*> parameters_;
  // As in a training script, where they are variables of the loop: they live until they are
  // assigned again.
  at::Tensor input_, output_, loss_;
};

}  // namespace tidemark::fsdp_prefetch
