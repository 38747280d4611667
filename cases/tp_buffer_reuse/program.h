// The training step of one pipeline stage: the forward passes of all microbatches in flight, their
// backward passes in the same order, Adam; the same code for every variant. The loss is the mean
// square of the stage's output, so that its gradient is what the next stage would send back.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "cases/tp_buffer_reuse/model.h"
#include "cases/tp_buffer_reuse/variants.h"
#include "harness/parallel/adam.h"
#include "harness/scenario.h"

namespace tidemark::tp_buffer_reuse {

class Training : public Program {
 public:
  Training(const Trial& trial, const Layout& layout, const World& world);
  ~Training() override;

  void step(int index, Recorder& recorder) override;
  std::vector<Shard> parameters() override;

 private:
  struct Microbatch {
    at::Tensor input, output;
  };

  Microbatch forward(int step, std::int64_t microbatch);
  void backward(const Microbatch& microbatch);
  void all_reduce(const at::Tensor& tensor);
  std::vector<Shard> shards(bool gradients);

  const Trial& trial_;
  const Dimensions dimensions_;
  const bool numbers_;
  std::unique_ptr<Communicator> communicator_;
  TensorParallel group_;
  Stage stage_;
  Adam adam_;
  at::Tensor loss_;
};

}  // namespace tidemark::tp_buffer_reuse
