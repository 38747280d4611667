// The numbers that the variants are compared with: the model's training in double precision.
#include "cases/fsdp_prefetch/policy.h"
#include "cases/numbers.h"

namespace tidemark::fsdp_prefetch {

Oracle oracle(const Trial& trial) {
  const std::int64_t stored = trial["precision"] == 1 ? 2 : 4;
  return multi_mlp_oracle(trial, trial["batch"] / trial.ranks * trial.ranks,
                          precision_of(trial, trial["precision"] == 0 ? 4 : 2, stored));
}

}  // namespace tidemark::fsdp_prefetch
