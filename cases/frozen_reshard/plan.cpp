// The replay: what the operators of the chain and its sharded units take and give back, run through
// the model of the allocator. Nothing here is measured, or read from the program.
#include <utility>

#include "cases/accounts.h"
#include "cases/device_facts.h"
#include "cases/frozen_reshard/policy.h"
#include "cases/kept.h"
#include "harness/judge/form.h"

namespace tidemark::frozen_reshard {
namespace {

using reference::Amount;

class Plan : reference::ShardedPlan {
  struct Layer {   // of one microbatch, for backward
    Tensor input;  // of the trained weight
    Tensor middle_input, middle;
    bool input_gradient;  // whether its input needs one
  };

 public:
  Plan(const Setup& setup, const reference::DeviceFacts& device)
      : ShardedPlan(shapes(setup), setup.sharding, setup.ranks, setup.rank, setup.instant, device),
        setup_(setup),
        bytes_(options_.stored),
        row_(setup.hidden * bytes_, "s"),
        activation_(setup.rows * row_, "x"),
        inner_(setup.rows * setup.adapter_rank * bytes_, "z"),
        weight_(setup.hidden * row_, "G"),
        adapter_weight_(setup.adapter_rank * row_, "g"),
        inputs_(static_cast<std::size_t>(setup.microbatches)),
        input_gradients_(inputs_.size()),
        saved_(inputs_.size()) {
    if (!setup_.shared_input) return;
    shared_gradients_.resize(static_cast<std::size_t>(setup_.layers));
    for (std::int64_t i = 0; i < setup_.layers; ++i) resting_.push_back(hold({row_, "rest"}));
  }

  Prediction run() {
    for (const auto& each : setup_.steps) step(each);
    expected_.predicted = std::move(predicted_);
    Prediction result{std::move(expected_)};
    for (const auto& unit : units_) {
      if (!unit.frozen || !unit.unsharded) continue;
      for (const auto& part : unit.parts)
        if (part.whole) result.frozen_bytes += part.whole->size;
    }
    return result;
  }

 private:
  Tensor activation() { return hold(activation_); }
  Tensor scalar(std::string_view symbol = "c") { return hold({bytes_, symbol}); }

  static std::vector<UnitShape> shapes(const Setup& setup) {
    const auto h = setup.hidden, r = setup.adapter_rank;
    const Symbols layer{"U", "d", "B", "t", "R", "i", "S"},
        adapter{"P", "v", "F", "u", "E", "j", "V"};
    std::vector<UnitShape> all;
    const auto& frozen = setup.steps.front().frozen;
    for (std::int64_t i = 0; i < setup.layers; ++i) {
      all.push_back({{{h, h}}, layer, setup.sharding.replicates_frozen() && frozen[all.size()]});
      if (setup.mixed) all.back().parameters.push_back({h, h});
      if (r > 0) all.push_back({{{r, h}, {h, r}}, adapter});
    }
    return all;
  }

  void step(const Setup::Step& now) {
    expected_.moments.clear();
    expected_.calls.clear();
    for (std::size_t k = 0; k < units_.size(); ++k) units_[k].frozen = now.frozen[k];
    begin("zero_grad");
    for (auto& unit : units_) unit.sharded_gradient.reset();
    for (auto& gradient : shared_gradients_) gradient.reset();
    loss_ = scalar("rest");

    const auto together = setup_.in_flight ? setup_.microbatches : 1;
    for (std::int64_t first = 0; first < setup_.microbatches; first += together) {
      begin("forward" + (setup_.in_flight ? "" : setup_.suffix(first)));
      for (auto m = first; m < first + together; ++m) forward(m);
      for (auto m = first; m < first + together; ++m) {
        suffix_ = setup_.suffix(m);
        begin("backward" + suffix_);
        const auto& synced = now.synced[static_cast<std::size_t>(m)];
        for (std::size_t k = 0; k < units_.size(); ++k) units_[k].synced = synced[k];
        backward(m);
      }
    }
    begin("optimizer");
    optimizer();
    end();
  }

  void forward(std::int64_t microbatch) {
    const auto m = static_cast<std::size_t>(microbatch);
    inputs_[m] = activation();
    if (flat()) waits_for(communication, compute);
    input_gradients_[m].reset();
    auto x = inputs_[m];
    bool gradient = setup_.input_gradient;
    auto& layers = saved_[m];
    for (std::size_t k = 0; k < units_.size(); ++k) {
      auto& unit = units_[k];
      auto& saved = layers.emplace_back();
      saved.input_gradient = gradient;
      pre_forward(k, microbatch, gradient + setup_.shared_input);
      auto y = activation();
      multiplied(multiplied_forward_);
      if (!unit.frozen) saved.input = x;
      if (setup_.mixed) {  // the trained weight is the second
        if (!unit.frozen) saved.input = y;
        y = activation();
      }
      if (setup_.shared_input) y = activation();
      const auto own = k;
      bool output_gradient = gradient || !unit.frozen || setup_.shared_input;
      if (!setup_.nested) post_forward(own, output_gradient);
      if (adapters()) {
        auto& adapter = units_[++k];
        pre_forward(k, microbatch, gradient);
        auto middle = hold(inner_);
        const auto z = activation();
        if (!adapter.frozen) {
          saved.middle_input = x;
          saved.middle = middle;
        }
        post_forward(k, gradient || !adapter.frozen);
        middle.reset();
        output_gradient = output_gradient || !adapter.frozen;
        y = activation();
      }
      if (setup_.nested) post_forward(own, output_gradient);
      x = y;
      gradient = output_gradient;
    }
    end_forward();
    apart_.push_back(activation());  // from the target
    losses_.push_back(scalar());
  }

  bool adapters() const { return setup_.adapter_rank > 0; }

  void backward(std::int64_t microbatch) {
    const auto m = static_cast<std::size_t>(microbatch);
    const auto weight = scalar();
    auto dy = std::move(apart_.front());
    apart_.erase(apart_.begin());
    auto& layers = saved_[m];
    for (auto l = layers.size(); l-- > 0 && dy;) {
      const auto k = adapters() ? 2 * l : l;
      dy = adapters() ? layer_with_adapter(k, microbatch, layers[l], dy)
                      : layer(k, microbatch, layers[l], dy);
      layers.pop_back();
    }
    layers.clear();
    if (dy) {
      if (has_node(units_[0])) gradient_of_layer_input(0, microbatch);
      input_gradients_[m] = std::move(dy);
    }
    end_backward();
    losses_.erase(losses_.begin());
  }

  // One product's backward: the gradient of the weight first, then that of its input; 0 bytes where
  // it needs none.
  Tensor product(Unit& unit, std::size_t of, const Amount& weight_gradient,
                 const Amount& input_gradient, Tensor& dy) {
    Tensor weight, input;
    const bool trained = weight_gradient > 0;
    if (trained) weight = hold(weight_gradient);
    if (trained) multiplied(multiplied_backward_);
    if (input_gradient > 0) input = hold(input_gradient);
    multiplied(multiplied_backward_);
    dy.reset();
    if (trained && flat()) {
      views_.push_back(std::move(weight));
    } else if (trained && !unit.parts[of].gradient) {
      unit.parts[of].gradient = weight;  // else added to it
    }
    return input;
  }

  static Amount where(bool needed, const Amount& amount) { return needed ? amount : Amount(); }

  // The gradients of all views of a flat parameter become its own, whose accumulation tells that
  // the unit's backward is over; on the stream on which the views were made.
  void flattened(std::size_t k) {
    auto& part = units_[k].parts[0];
    waits_for(communication, compute);
    const auto symbol = adapters() && k % 2 == 1 ? "f" : "G";
    const auto whole = hold({part.numel * bytes_, symbol}, communication);
    for (const auto& view : views_) memory_.record(view.get(), communication);
    views_.clear();
    if (!part.gradient) part.gradient = whole;  // else added to it
    post_backward(k);
  }

  bool reaches(const Unit& unit, const Layer& saved) const {
    return saved.input_gradient || !unit.frozen || setup_.shared_input;
  }

  // The gradient of the input of unit k's layer is there, which its adapter has as well, unless
  // that is inside the unit and gets what the unit's node passes on.
  void gradient_of_layer_input(std::size_t k, std::int64_t microbatch) {
    if (k >= units_.size()) return;
    gradient_of_input(k, microbatch, false);
    if (adapters() && !(setup_.nested && has_node(units_[k])))
      gradient_of_input(k + 1, microbatch, false);
  }

  // Backward of a layer without its adapter, whose gradient of the input is `beside`.
  Tensor layer(std::size_t k, std::int64_t microbatch, Layer& saved, Tensor& dy,
               Tensor beside = {}) {
    auto& unit = units_[k];
    if (!reaches(unit, saved)) return nullptr;
    const bool computes = saved.input_gradient || !unit.frozen;
    if (!setup_.nested) pre_backward(k, microbatch);
    if (!adapters()) gradient_of_layer_input(k + 1, microbatch);
    Tensor shared;
    if (setup_.shared_input) {
      shared = hold(row_);
      if (saved.input_gradient || !has_node(unit)) accumulate_shared(k, microbatch, shared);
    }
    Tensor dx;
    bool inside = false;  // an adapter whose input is that of the unit's node
    if (computes) {
      dx = product(unit, unit.parts.size() - 1, where(!unit.frozen, weight_),
                   where(saved.input_gradient, activation_), dy);
      saved.input.reset();
      if (setup_.mixed && saved.input_gradient) {
        Tensor dmiddle = std::move(dx);
        dx = product(unit, 0, 0, activation_, dmiddle);
      }
    }
    if (beside && (setup_.nested || !has_node(unit))) {  // the unit's input is the adapter's, too
      dx = std::move(beside);                            // added in place
      inside = has_node(unit);
    }
    if (k == 0 && dx && !has_node(unit)) gradient_of_layer_input(0, microbatch);
    if (flat() && !unit.frozen) flattened(k);
    if (has_node(unit) && (saved.input_gradient || shared)) post_backward(k);
    if (inside) gradient_of_input(k + 1, microbatch, false);  // its hook is the younger one
    if (shared) accumulate_shared(k, microbatch, shared);
    return dx;
  }

  void accumulate_shared(std::size_t k, std::int64_t microbatch, Tensor& gradient) {
    gradient_of_input(k, microbatch, true);
    auto& sum = shared_gradients_[adapters() ? k / 2 : k];
    if (!sum) sum = gradient;
    gradient.reset();
  }

  // Its output is the sum of both, whose gradient both get; the adapter was last in forward. The
  // unit of a nested adapter's layer has the sum as its output.
  Tensor layer_with_adapter(std::size_t k, std::int64_t microbatch, Layer& saved, Tensor& dy) {
    if (setup_.nested) pre_backward(k, microbatch);
    gradient_of_layer_input(k + 2, microbatch);
    auto& adapter = units_[k + 1];
    Tensor dx;
    if (saved.input_gradient || !adapter.frozen) {
      pre_backward(k + 1, microbatch);
      const auto weight = where(!adapter.frozen, adapter_weight_);
      // Held for the layer too, where its backward is to come.
      Tensor shared_dy = reaches(units_[k], saved) ? dy : std::move(dy);
      auto dmiddle = product(adapter, 1, weight, inner_, shared_dy);
      saved.middle.reset();
      dx = product(adapter, 0, weight, where(saved.input_gradient, activation_), dmiddle);
      saved.middle_input.reset();
      if (flat() && !adapter.frozen) flattened(k + 1);
      if (has_node(adapter) && saved.input_gradient) post_backward(k + 1);
    }
    const auto through = layer(k, microbatch, saved, dy, dx);
    dy.reset();
    return dx ? dx : through;  // added in place
  }

  void optimizer() {
    std::vector<Part*> parts;
    for (auto& unit : units_) {
      if (!unit.sharded_gradient) continue;
      for (std::size_t i = setup_.mixed ? 1 : 0; i < unit.parts.size(); ++i)
        parts.push_back(&unit.parts[i]);
    }
    adam(parts);
  }

  const Setup setup_;
  const std::int64_t bytes_;               // of an element
  const Amount row_, activation_, inner_;  // a row; an activation of a layer, of an adapter
  const Amount weight_, adapter_weight_;   // gradients
  std::vector<Tensor> inputs_, input_gradients_, shared_gradients_, losses_, apart_;
  std::vector<std::vector<Layer>> saved_;  // by microbatch
  std::vector<Tensor> views_;              // gradients of a flat parameter's weights
  Tensor loss_;
  bool multiplied_forward_ = false, multiplied_backward_ = false;
};

}  // namespace

const Prediction& planned(const Trial& trial, const Variant& variant, int rank) {
  static Kept<Prediction> kept;
  return kept.of(trial, variant.name, rank, [&] {
    return Plan(setup_of(trial, claim_of(variant), rank), current_device_facts()).run();
  });
}

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank) {
  const auto& expected = planned(trial, variant, rank);
  const bool clocked = waits_for_clock(trial), control = variant.role == Role::control;
  std::vector<Expectation> all;
  // An account of allocated bytes, within bounds where a clock decides which blocks are free.
  const auto add = [&](const Expectation& one, const reference::Account& account, Bytes widest) {
    append(all, clocked ? in_any_block(one, account, widest) : std::vector{one});
  };
  for (const auto& m : expected.moments) {
    add(accounted_at(m.name, Statistic::allocated, m.allocated), m.allocated, 0);
    if (!clocked) all.push_back(accounted_at(m.name, Statistic::requested, m.active));
  }
  for (const auto& [phase, extents] : expected.predicted.phases) {
    if (control || phase == "zero_grad") continue;
    const auto& accounts = expected.predicted.accounts.at(phase);
    if (clocked) {
      const auto& [highest, widest] = accounts.peaks.in_any_block;
      add(accounted(Statistic::allocated, phase, false, highest), highest, widest);
    } else {
      append(all, accounted(phase, accounts.peaks));
      append(all, replayed(phase, extents, /*ends=*/false));
    }
    if (!phase.starts_with("backward")) continue;
    add(accounted(Statistic::allocated, phase, true, accounts.allocated), accounts.allocated, 0);
    if (!clocked) all.push_back(replayed(Statistic::allocated, phase, true, extents[0].end));
  }
  return all;
}

}  // namespace tidemark::frozen_reshard
