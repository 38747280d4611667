#include "harness/judge/oracle.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace tidemark {

Oracle shared_oracle(const Scenario& scenario, const Trial& trial, World& world) {
  Oracle oracle;
  if (world.leads()) oracle = scenario.reference(trial);
  auto send = [&](std::string bytes) { return world.broadcast(bytes); };
  auto send_values = [&](std::vector<double> values) {
    std::string bytes = send(
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)));
    std::vector<double> result(bytes.size() / sizeof(double));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(result.data()));
    return result;
  };
  oracle.loss = send_values(oracle.loss);
  oracle.tolerance = send_values({oracle.tolerance})[0];
  oracle.loss_condition = send_values({oracle.loss_condition})[0];
  oracle.parameter_condition = send_values({oracle.parameter_condition})[0];
  oracle.why = send(oracle.why);
  for (auto* shards : {&oracle.gradients, &oracle.parameters}) {
    const auto count =
        static_cast<std::size_t>(send_values({static_cast<double>(shards->size())})[0]);
    shards->resize(count);
    for (auto& shard : *shards) {
      shard.name = send(shard.name);
      std::vector<double> values;
      if (world.leads()) {
        at::Tensor flat = shard.values.to(at::kDouble).contiguous().reshape({-1});
        values.assign(flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
      }
      values = send_values(std::move(values));
      std::vector<double> sizes;
      if (world.leads())
        for (auto size : shard.values.sizes()) sizes.push_back(static_cast<double>(size));
      sizes = send_values(std::move(sizes));
      shard.values = at::tensor(values, at::kDouble)
                         .reshape(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
    }
  }
  return oracle;
}

}  // namespace tidemark
