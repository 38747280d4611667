// The numbers that the variants are compared with: the model's training in double precision.
#include "cases/fsdp_prefetch/policy.h"
#include "cases/numbers.h"

namespace tidemark::fsdp_prefetch {

Oracle oracle(const Trial& trial) {
  return multi_mlp_oracle(trial, trial["batch"] / trial.ranks * trial.ranks,
                          trial["precision"] == 0);
}

}  // namespace tidemark::fsdp_prefetch
