// The optimizer of sharded parameters: hands out what this rank has of them, and updates it at the
// end of a step.
#pragma once

#include <vector>

#include "harness/parallel/adam.h"
#include "harness/parallel/sharded_parameter.h"
#include "harness/scenario.h"

namespace tidemark {

std::vector<Shard> shards_of(const std::vector<ShardedParameter*>& parameters);
/// Of those that have one.
std::vector<Shard> gradients_of(const std::vector<ShardedParameter*>& parameters);
/// Of those that have a gradient.
void adam_step(Adam& adam, const std::vector<ShardedParameter*>& parameters);

}  // namespace tidemark
