// A rank of a pipeline: its stages, worked through in the order of the schedule, with
// point-to-point exchange between neighbours.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "cases/zero_bubble_detach/pipeline_schedule.h"
#include "cases/zero_bubble_detach/pipeline_stage.h"
#include "harness/parallel/communicator.h"

namespace tidemark::zero_bubble_detach {

/// A message between stages.
struct Boundary {
  std::vector<std::int64_t> shape;
  at::ScalarType type = at::kFloat;
};

class PipelineRank {
 public:
  /// `stages`: this rank's, by number. `communicator` may be null where the pipeline has one rank.
  /// Received activations and gradients have persistent buffers, one a microbatch.
  PipelineRank(const PipelineSchedule& schedule, int rank, Communicator* communicator,
               const Boundary& boundary, std::map<int, std::unique_ptr<PipelineStage>> stages,
               PipelineHabits habits = {});

  /// All microbatches once. `input`: of a microbatch, for the first stage; `after` is told every
  /// action once its result is on its way.
  void run(const std::function<at::Tensor(int microbatch)>& input,
           const std::function<void(const Action&)>& after);

  const std::map<int, std::unique_ptr<PipelineStage>>& stages() const { return stages_; }
  const std::vector<Move>& program() const { return program_; }

 private:
  /// The tensor that a pass of a stage gets for a microbatch from its neighbour.
  struct Arrival {
    at::Tensor buffer;  // of another rank's
    std::unique_ptr<Work> work;
    at::Tensor local;  // from a stage of this rank: handed over
  };
  using Key = std::pair<int, int>;  // stage, microbatch
  at::Tensor take(Arrival& arrival);
  void compute(const Action& action, const std::function<at::Tensor(int)>& input);
  void hand_on(std::map<Key, Arrival>& to, int stage, int microbatch, at::Tensor result);

  std::vector<Move> program_;
  int stage_count_;
  const PipelineHabits habits_;
  Communicator* communicator_;
  std::map<int, std::unique_ptr<PipelineStage>> stages_;
  std::map<Key, Arrival> inputs_, gradients_;
  at::Tensor outgoing_, sent_gradient_;
};

}  // namespace tidemark::zero_bubble_detach
