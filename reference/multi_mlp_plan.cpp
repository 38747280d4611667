#include "reference/multi_mlp_plan.h"

#include <utility>
#include <vector>

namespace tidemark::reference {
namespace {

class MultiMlpPlan : ShardedPlan {
 public:
  MultiMlpPlan(const ShardedMultiMlp& model, const DeviceFacts& device)
      : ShardedPlan(shapes(model), model.sharding, model.ranks, model.rank, model.instant, device),
        model_(model),
        activation_(model.rows * model.hidden * options_.gathered) {}

  Predicted run() {
    for (int i = 0; i < model_.steps; ++i) step();
    return std::move(predicted_);
  }

 private:
  struct Saved {  // of a block, for backward
    Tensor input, wide, active;
  };
  using Statistics = std::array<Tensor, 2>;

  static std::vector<UnitShape> shapes(const ShardedMultiMlp& model) {
    const auto h = model.hidden;
    std::vector<UnitShape> all{{{{h, 1}, {h, 1}}}};  // the root first
    all.insert(all.end(), static_cast<std::size_t>(model.layers), {{{h, h}, {h, h}}});
    return all;
  }

  Tensor activation() { return hold(activation_); }
  Statistics norm_statistics() {  // mean and 1 / deviation, fp32
    auto mean = hold(model_.rows * 4);
    return {std::move(mean), hold(model_.rows * 4)};
  }
  Tensor gradient_of(const Part& part) { return hold(part.numel * options_.gathered); }

  void step() {
    phase("zero_grad");
    for (auto& unit : units_) unit.sharded_gradient.reset();
    phase("forward");
    forward();
    phase("backward");
    backward();
    phase("optimizer");
    auto& norms = units_[0].parts;
    std::vector<Part*> parts{&norms[0]};
    for (std::size_t i = 1; i < units_.size(); ++i) {
      for (auto& part : units_[i].parts) parts.push_back(&part);
    }
    parts.push_back(&norms[1]);
    adam(parts);
    end();
  }

  void forward() {
    input_ = hold(model_.rows * model_.hidden * options_.stored);
    if (options_.stored != options_.gathered) cast_input_ = activation();
    pre_forward(0);
    auto x = activation();
    first_statistics_ = norm_statistics();
    for (std::size_t i = 1; i < units_.size(); ++i) {
      pre_forward(i);
      if (model_.explicit_prefetch && i + 1 < units_.size()) unshard(i + 1);
      Saved saved{x, activation(), {}};
      multiplied(multiplied_forward_);
      saved.active = activation();
      const auto out = activation();
      post_forward(i);
      x = activation();
      saved_.push_back(std::move(saved));
    }
    last_ = x;
    auto output = activation();
    last_statistics_ = norm_statistics();
    post_forward(0);
    end_forward();
    output_ = std::move(output);
    loss_ = hold(options_.gathered);
  }

  void backward() {
    const auto one = hold(options_.gathered);
    auto dy = activation();
    pre_backward(0);
    auto dx = activation();
    auto& norms = units_[0].parts;
    norms[1].gradient = gradient_of(norms[1]);
    dy.reset();
    last_.reset();
    last_statistics_ = {};
    for (auto i = units_.size() - 1; i > 0; --i) {
      auto& parts = units_[i].parts;
      auto saved = std::move(saved_.back());
      saved_.pop_back();
      pre_backward(i);
      parts[1].gradient = gradient_of(parts[1]);
      multiplied(multiplied_backward_);
      auto dactive = activation();
      saved.active.reset();
      auto dwide = activation();
      dactive.reset();
      saved.wide.reset();
      parts[0].gradient = gradient_of(parts[0]);
      const auto through = activation();  // added to dx in place
      dwide.reset();
      saved.input.reset();
      post_backward(i);
    }
    norms[0].gradient = gradient_of(norms[0]);
    dx.reset();
    cast_input_.reset();
    first_statistics_ = {};
    post_backward(0);
    end_backward();
  }

  const ShardedMultiMlp model_;
  const std::int64_t activation_;  // bytes of a layer's output
  std::vector<Saved> saved_;
  Statistics first_statistics_, last_statistics_;
  Tensor input_, cast_input_, output_, loss_, last_;
  bool multiplied_forward_ = false, multiplied_backward_ = false;
};

}  // namespace

Predicted predict(const ShardedMultiMlp& model, const DeviceFacts& device) {
  return MultiMlpPlan(model, device).run();
}

}  // namespace tidemark::reference
