// The memory of the model of reference/multi_mlp.h on paper: what its operators take and give back
// in a step, whatever becomes of its parameters and gradients. The plan of a case derives from it,
// and says the rest in the hooks. `Ground` is Replay or ShardedPlan.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "reference/memory/replay.h"

namespace tidemark::reference {

struct MultiMlpSizes {
  std::int64_t layers, hidden;
  std::int64_t rows;     // of one rank
  std::int64_t element;  // bytes
};

template <class Ground>
class MultiMlpPlan : protected Ground {
 protected:
  using Tensor = Replay::Tensor;

  template <class... Of>
  explicit MultiMlpPlan(const MultiMlpSizes& sizes, Of&&... ground)
      : Ground(std::forward<Of>(ground)...), sizes_(sizes) {}

  // Unit 0 has the two norms, unit i the two matrices of block i.
  virtual void before_forward(std::size_t /*unit*/) {}
  virtual void after_forward(std::size_t /*unit*/) {}
  virtual void before_backward(std::size_t /*unit*/) {}
  virtual void after_backward(std::size_t /*unit*/) {}
  /// The gradient of a parameter of the unit, the first (0) or the second, is there.
  virtual void computed(std::size_t unit, std::size_t which, Tensor gradient) = 0;

  Tensor activation() { return this->hold(sizes_.rows * sizes_.hidden * sizes_.element); }

  void forward() {
    before_forward(0);
    auto x = activation();
    first_statistics_ = statistics();
    for (std::size_t i = 1; i <= layers(); ++i) {
      before_forward(i);
      Saved saved{x, activation(), {}};
      this->multiplied(multiplied_forward_);
      saved.active = activation();
      const auto out = activation();
      after_forward(i);
      x = activation();
      saved_.push_back(std::move(saved));
    }
    last_ = x;
    auto output = activation();
    last_statistics_ = statistics();
    after_forward(0);
    output_ = std::move(output);
    loss_.reset();
    apart_ = activation();  // from the target
    loss_ = this->hold(sizes_.element);
  }

  void backward() {
    const auto one = this->hold(sizes_.element);
    auto dy = std::move(apart_);
    before_backward(0);
    auto dx = activation();
    auto gradient = this->hold(norm_gradient());
    dy.reset();
    last_.reset();
    last_statistics_ = {};
    computed(0, 1, std::move(gradient));
    for (auto i = layers(); i > 0; --i) {
      auto saved = std::move(saved_.back());
      saved_.pop_back();
      before_backward(i);
      gradient = this->hold(norm_gradient() * sizes_.hidden);
      this->multiplied(multiplied_backward_);
      auto dactive = activation();
      saved.active.reset();
      computed(i, 1, std::move(gradient));
      auto dwide = activation();
      dactive.reset();
      saved.wide.reset();
      gradient = this->hold(norm_gradient() * sizes_.hidden);
      const auto through = activation();  // added to dx in place
      dwide.reset();
      saved.input.reset();
      computed(i, 0, std::move(gradient));
      after_backward(i);
    }
    gradient = this->hold(norm_gradient());
    dx.reset();
    first_statistics_ = {};
    computed(0, 0, std::move(gradient));
    after_backward(0);
  }

  const MultiMlpSizes sizes_;

 private:
  struct Saved {  // of a block, for backward
    Tensor input, wide, active;
  };
  using Statistics = std::pair<Tensor, Tensor>;

  std::size_t layers() const { return static_cast<std::size_t>(sizes_.layers); }
  std::int64_t norm_gradient() const { return sizes_.hidden * sizes_.element; }
  Statistics statistics() {  // of a norm: mean and 1 / deviation, fp32
    auto mean = this->hold(sizes_.rows * 4);
    return {std::move(mean), this->hold(sizes_.rows * 4)};
  }

  std::vector<Saved> saved_;
  Statistics first_statistics_, last_statistics_;
  Tensor output_, loss_, last_, apart_;
  bool multiplied_forward_ = false, multiplied_backward_ = false;
};

}  // namespace tidemark::reference
