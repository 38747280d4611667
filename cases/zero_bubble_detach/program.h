// The training step: zero gradients, all microbatches through the pipeline, mean over them, plain
// gradient descent; the same code for every variant.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "cases/zero_bubble_detach/model.h"
#include "harness/parallel/pipeline_rank.h"
#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

/// Whether residency after this action is recorded: of the first, the middle and the last
/// microbatch of every stage.
bool marked(const Action& action, int microbatches);
/// "W" of "stage 2, microbatch 0"
Call call_of(const Action& action);
/// "after W, stage 2, microbatch 0"
std::string moment_of(const Action& action);

class Training : public Program {
 public:
  Training(const Trial& trial, const StagePolicy& policy, const World& world);
  ~Training() override;

  void step(int index, Recorder& recorder) override;
  std::vector<Shard> parameters() override;

 private:
  void fill_inputs(int index);
  void report_loss(Recorder& recorder);

  const Trial& trial_;
  const Sizes sizes_;
  const PipelineSchedule schedule_;
  const int rank_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  at::Tensor inputs_, targets_;  // [microbatches, tokens], on the ranks that read them
  std::unique_ptr<PipelineRank> pipeline_;
};

}  // namespace tidemark::zero_bubble_detach
