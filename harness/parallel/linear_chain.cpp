#include "harness/parallel/linear_chain.h"

#include <ATen/ATen.h>

#include "harness/measure/recorder.h"

namespace tidemark {

std::vector<std::vector<ParameterShape>> LinearChainShape::units() const {
  std::vector<std::vector<ParameterShape>> all;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto layer = "layers." + std::to_string(i);
    all.push_back({{layer + ".fc.weight", {hidden, hidden}}});
    if (adapter_rank == 0) continue;
    all.push_back({{layer + ".adapter_fc_a.weight", {adapter_rank, hidden}},
                   {layer + ".adapter_fc_b.weight", {hidden, adapter_rank}}});
  }
  return all;
}

LinearChain::LinearChain(ShardedStep& step, const LinearChainShape& shape)
    : step_(step), adapters_(shape.adapter_rank > 0) {
  for (const auto& unit : shape.units())
    units_.push_back(std::make_unique<ShardedUnit>(step, unit));
  if (!shape.shared_input) return;
  const CategoryScope category("parameters");
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    shared_.push_back(at::empty({shape.hidden},
                                at::TensorOptions().dtype(step.options.stored).device(at::kCUDA)));
    shared_.back().requires_grad_(true);
  }
}

at::Tensor LinearChain::forward(const at::Tensor& input) {
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

std::vector<ShardedParameter*> LinearChain::parameters() {
  std::vector<ShardedParameter*> all;
  for (auto& unit : units_) {
    for (auto& p : unit->parameters()) all.push_back(&p);
  }
  return all;
}

}  // namespace tidemark
