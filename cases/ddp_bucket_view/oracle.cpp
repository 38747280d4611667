// The numbers that the variants are compared with: the model's training in double precision.
#include "cases/ddp_bucket_view/policy.h"
#include "cases/numbers.h"

namespace tidemark::ddp_bucket_view {

Oracle oracle(const Trial& trial) {
  return multi_mlp_oracle(trial, trial["rows"] * trial.ranks, precision_of(trial, 4, 4));
}

}  // namespace tidemark::ddp_bucket_view
