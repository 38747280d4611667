#include "harness/parallel/sharded_adam.h"

namespace tidemark {

std::vector<Shard> shards_of(const std::vector<ShardedParameter*>& parameters) {
  std::vector<Shard> all;
  for (const auto* p : parameters) all.push_back({p->name(), p->shard_offset(), p->shard()});
  return all;
}

std::vector<Shard> gradients_of(const std::vector<ShardedParameter*>& parameters) {
  std::vector<Shard> all;
  for (const auto* p : parameters) {
    if (p->gradient.defined()) all.push_back({p->name(), p->shard_offset(), p->gradient});
  }
  return all;
}

void adam_step(Adam& adam, const std::vector<ShardedParameter*>& parameters) {
  std::vector<at::Tensor> shards, gradients;
  for (const auto* p : parameters) {
    if (!p->gradient.defined()) continue;
    shards.push_back(p->shard());
    gradients.push_back(p->gradient);
  }
  adam.step(shards, gradients);
}

}  // namespace tidemark
