#include "cases/frozen_reshard/model.h"

#include <ATen/ATen.h>

#include "harness/recorder.h"

namespace tidemark::frozen_reshard {

Chain::Chain(ShardedStep& step, const Setup& setup)
    : step_(step), adapters_(setup.adapter_rank > 0) {
  for (const auto& unit : parameter_shapes(setup))
    units_.push_back(std::make_unique<ShardedUnit>(step, unit));
  if (!setup.shared_input) return;
  const CategoryScope category("parameters");
  for (std::int64_t i = 0; i < setup.layers; ++i) {
    shared_.push_back(at::empty({setup.hidden},
                                at::TensorOptions().dtype(step.options.stored).device(at::kCUDA)));
    shared_.back().requires_grad_(true);
  }
}

at::Tensor Chain::forward(const at::Tensor& input) {
  step_.begin_forward();
  auto x = input;
  std::size_t next = 0;
  for (std::size_t layer = 0; next < units_.size(); ++layer) {
    auto& unit = *units_[next++];
    const auto inputs = unit.pre_forward({x, shared_.empty() ? at::Tensor() : shared_[layer]});
    auto y = at::linear(inputs[0], unit[0]);
    if (inputs[1].defined()) y = y + inputs[1];
    y = unit.post_forward(y);
    if (adapters_) {
      auto& adapter = *units_[next++];
      const auto hooked = adapter.pre_forward(x);
      const auto z = adapter.post_forward(at::linear(at::linear(hooked, adapter[0]), adapter[1]));
      x = y + z;
    } else {
      x = y;
    }
  }
  step_.end_forward();
  return x;
}

std::vector<ShardedParameter*> Chain::parameters() {
  std::vector<ShardedParameter*> all;
  for (auto& unit : units_) {
    for (auto& p : unit->parameters()) all.push_back(&p);
  }
  return all;
}

}  // namespace tidemark::frozen_reshard
