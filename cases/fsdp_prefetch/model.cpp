#include "cases/fsdp_prefetch/model.h"

#include <ATen/ATen.h>

#include "harness/measure/recorder.h"

namespace tidemark::fsdp_prefetch {
namespace {

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, std::int64_t hidden) {
  return at::layer_norm(x, {hidden}, weight);
}

}  // namespace

std::vector<ParameterShape> parameter_shapes(std::int64_t layers, std::int64_t hidden) {
  std::vector<ParameterShape> shapes{{"pre_norm.weight", {hidden}}};
  for (std::int64_t i = 0; i < layers; ++i) {
    for (const char* name : {"fc1", "fc2"}) {
      shapes.push_back({"mlps." + std::to_string(i) + "." + name + ".weight", {hidden, hidden}});
    }
  }
  shapes.push_back({"post_norm.weight", {hidden}});
  return shapes;
}

MultiMlp::MultiMlp(ShardedStep& step, std::int64_t layers, std::int64_t hidden,
                   bool explicit_prefetch)
    : step_(step),
      hidden_(hidden),
      root_(step, {parameter_shapes(0, hidden).front(), parameter_shapes(0, hidden).back()}) {
  const auto shapes = parameter_shapes(layers, hidden);
  for (std::size_t i = 1; i + 1 < shapes.size(); i += 2) {
    blocks_.push_back(
        std::make_unique<ShardedUnit>(step, std::vector<ParameterShape>{shapes[i], shapes[i + 1]}));
  }
  if (!explicit_prefetch) return;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    std::vector<ShardedUnit*> next, before;
    if (i + 1 < blocks_.size()) next = {blocks_[i + 1].get()};
    if (i > 0) before = {blocks_[i - 1].get()};
    blocks_[i]->prefetch(next, before);
  }
}

at::Tensor MultiMlp::forward(const at::Tensor& input) {
  step_.begin_forward();
  auto x = norm(root_.pre_forward(input), root_[0], hidden_);
  for (auto& block : blocks_) {
    const auto hooked = block->pre_forward(x);
    const auto wide = at::gelu(at::linear(hooked, (*block)[0]));
    x = x + block->post_forward(at::linear(wide, (*block)[1]));
  }
  const CategoryScope category("outputs");
  x = root_.post_forward(norm(x, root_[1], hidden_));
  step_.end_forward();
  return x;
}

std::vector<ShardedParameter*> MultiMlp::parameters() {
  std::vector<ShardedParameter*> all{&root_.parameters()[0]};
  for (auto& block : blocks_) {
    for (auto& p : block->parameters()) all.push_back(&p);
  }
  all.push_back(&root_.parameters()[1]);
  return all;
}

}  // namespace tidemark::fsdp_prefetch
