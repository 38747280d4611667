// The forms: what the amounts of the moments in forms.h come to on this rank. Nothing here is taken
// from the plan.
#include "cases/frozen_reshard/forms.h"

#include <algorithm>

#include "cases/device_facts.h"
#include "harness/judge/form.h"

namespace tidemark::frozen_reshard {
namespace {

using reference::divided;

/// The symbols' values on this rank.
class Amounts {
 public:
  explicit Amounts(const Chain& chain)
      : chain_(chain),
        setup_(chain.setup()),
        bytes_(setup_.sharding.stored),
        device_(current_device_facts()) {
    const Bytes h = setup_.hidden, rows = setup_.rows, inner = setup_.adapter_rank;
    paper_.tensors("x", {rows * h * bytes_});
    paper_.tensors("r", {rows * bytes_});
    paper_.tensors("c", {bytes_});
    paper_.tensors("s", {h * bytes_});
    if (chain.mixed()) {
      unit({{h, h}, {h, h}}, {{h, h}}, {"U", "B", "t", "S", "i", "d"});
      paper_.tensors("R", {setup_.ranks * shard({h, h})});
    } else {
      const auto weight = parameters({{h, h}});
      unit(weight, weight, {"U", chain.flat() ? "R" : "U", "t", "S", "i", "d"});
    }
    paper_.tensors("G", {h * h * bytes_});
    if (chain.adapters()) {
      const auto weights = parameters({{inner, h}, {h, inner}});
      unit(weights, weights, {"P", "F", "u", "V", "j", "v"});
      paper_.tensors("g", {h * inner * bytes_});
      paper_.tensors("f", {2 * h * inner * bytes_});
      paper_.tensors("z", {rows * inner * bytes_});
    }
    rest();
  }

  const Vocabulary& vocabulary() const { return paper_; }

 private:
  struct Weight {
    Bytes rows, columns;
  };
  struct Names {
    std::string whole, flat, copied_out, shard, copied_in, own;
  };

  Bytes shard_rows(const Weight& weight) const { return divided(weight.rows, setup_.ranks); }
  Bytes shard(const Weight& weight) const { return shard_rows(weight) * weight.columns * bytes_; }
  Bytes own(const Weight& weight) const {
    const Bytes rows = shard_rows(weight);
    if (chain_.flat()) return shard(weight);  // padding and all
    return std::clamp<Bytes>(weight.rows - setup_.rank * rows, 0, rows) * weight.columns * bytes_;
  }

  /// The parameters of a unit. A flat one has the elements of all weights as its rows.
  std::vector<Weight> parameters(std::vector<Weight> weights) const {
    if (!chain_.flat()) return weights;
    Bytes numel = 0;
    for (const auto& [rows, columns] : weights) numel += rows * columns;
    return {{numel, 1}};
  }

  void unit(const std::vector<Weight>& weights, const std::vector<Weight>& trained,
            const Names& names) {
    Bytes flat = 0, shards = 0, blocks = 0;
    std::vector<Bytes> whole, own_rows;
    for (const auto& weight : weights) {
      flat += setup_.ranks * shard(weight);
      whole.push_back(setup_.ranks * shard(weight));
    }
    for (const auto& weight : trained) {
      shards += shard(weight);
      own_rows.push_back(own(weight));
      blocks += divided(shard(weight), kCopied);
    }
    paper_.tensors(names.whole, whole);
    if (names.flat != names.whole) paper_.tensors(names.flat, {flat});
    paper_.tensors(names.shard, {shards});
    paper_.tensors(names.own, own_rows);
    paper_.passing(names.copied_out, copy_out_table(weights));
    paper_.passing(names.copied_in, 8 * (6 * std::ssize(trained) + 2 + blocks));
  }

  static constexpr Bytes kCopied = 2048;  // by a block of threads: 128 of them, 16 bytes each

  // Table of split_with_sizes_copy (aten/src/ATen/native/cuda/TensorShape.cu): source, destination
  // and size of every weight, a running count of blocks, and an index for each block of threads. A
  // block copies a square of chunks if not all blocks are resident at once.
  Bytes copy_out_table(const std::vector<Weight>& weights) const {
    const auto blocks = [&](Bytes each) {
      Bytes all = 0;
      for (const auto& weight : weights) all += divided(shard(weight), each);
      return all;
    };
    const Bytes resident = device_.processors * device_.threads_per_processor / 128 * 2;
    const Bytes rounds = divided(blocks(kCopied) * setup_.ranks, resident);
    Bytes side = 1;
    while (side * side < rounds) ++side;
    const Bytes each = divided(rounds, std::min(side, setup_.ranks));
    return 8 * (4 * std::ssize(weights) + 1 + blocks(kCopied * each));
  }

  void rest() {
    const Bytes h = setup_.hidden, inner = setup_.adapter_rank;
    for (int k = 0; k < chain_.units(); ++k) {
      const auto weights =
          chain_.is_adapter(k) ? parameters({{inner, h}, {h, inner}}) : parameters({{h, h}});
      for (const auto& weight : weights) {
        paper_.tensors("rest", {shard(weight)});
        if (chain_.ever_trained(k)) paper_.tensors("rest", {own(weight), own(weight)});
      }
      if (chain_.mixed()) paper_.tensors("rest", {shard({h, h})});  // the frozen weight
      if (setup_.shared_input && !chain_.is_adapter(k)) paper_.tensors("rest", {h * bytes_});
    }
    paper_.tensors("rest", {bytes_, device_.workspace_bytes, device_.workspace_bytes});
  }

  const Chain& chain_;
  const Setup& setup_;
  const Bytes bytes_;  // of an element
  const reference::DeviceFacts device_;
  Vocabulary paper_;
};

std::string all_of(Moment moment) {
  moment.alive.add(moment.waiting);
  return moment.alive.text();
}

std::vector<FormMoment> texts(const std::vector<Moment>& moments) {
  std::vector<FormMoment> all;
  for (const auto& moment : moments) all.push_back({moment.where, moment.alive.text()});
  return all;
}

}  // namespace

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank) {
  if (trial.steps < 2) return {};
  using enum Statistic;
  const Chain chain(setup_of(trial, claim_of(variant), rank));
  const auto paper = Amounts(chain).vocabulary();
  std::vector<Expectation> all;
  // If freed blocks wait, the highest moment may be the begin of a phase. How long they wait
  // depends on the clock of the device, and has no form unless the device is instant.
  std::vector<Statistic> with_waiting{active, requested};
  if (chain.flat() && trial.schedule != "instant") with_waiting.clear();
  std::vector<FormMoment> at_begin;
  for (const auto& phase : moments(chain)) {
    if (variant.role != Role::control) {
      auto highest = texts(phase.highest);
      append(all, paper.forms(phase.phase, false, {allocated}, highest));
      std::ranges::move(at_begin, std::back_inserter(highest));
      append(all, paper.forms(phase.phase, false, with_waiting, highest));
      if (!phase.end.empty())
        append(all, paper.forms(phase.phase, true, {allocated}, texts(phase.end)));
    }
    at_begin.clear();
    for (const auto& moment : phase.end)
      if (chain.flat()) at_begin.push_back({"what backward has freed waits", all_of(moment)});
    for (const auto& moment : phase.named) {
      append(all, paper.forms_at(moment.where, {allocated}, {moment.where, moment.alive.text()}));
      if (!with_waiting.empty())
        append(all, paper.forms_at(moment.where, {requested}, {moment.where, all_of(moment)}));
    }
  }
  return all;
}

std::vector<Symbol> symbols() {
  return {{"rest",
           "what stays between steps besides the inputs: sharded parameters, Adam's two moments of "
           "those that are trained, shared inputs, the loss, two cuBLAS workspaces"},
          {"x", "one activation of this rank's rows of a microbatch, its gradient, or an input"},
          {"r", "mean of each row, or its gradient"},
          {"c", "loss of one microbatch, or its weight in the step's"},
          {"s", "gradient of one shared input"},
          {"U",
           "parameters of one layer, gathered; the buffer they are gathered into and the input of "
           "their gradient's reduce-scatter are as large (layout=flat has neither); pattern=mixed: "
           "two weights"},
          {"B", "buffer that two weights of a layer are gathered into (pattern=mixed)"},
          {"R",
           "input of the reduce-scatter of a layer's trained weight (pattern=mixed; layout=flat: "
           "its padded gradient, where the ranks do not divide it)"},
          {"t", "table of the copy out of a layer's buffer"},
          {"G",
           "gradient of one layer's weight, before it is sharded; layout=flat: also of the flat "
           "parameter"},
          {"i", "table of the copy into a layer's reduce-scatter"},
          {"S", "sharded gradient of one layer"},
          {"d", "Adam's temporary: square root for this rank's rows of a layer"},
          {"P", "parameters of one adapter, gathered: two weights"},
          {"F",
           "buffer that an adapter is gathered into, or the input of its reduce-scatter; "
           "layout=flat: its padded gradient, where the ranks do not divide it"},
          {"u", "table of the copy out of an adapter's buffer"},
          {"g", "gradient of one of an adapter's two weights, before it is sharded"},
          {"f", "gradient of an adapter's flat parameter (layout=flat), before it is sharded"},
          {"j", "table of the copy into an adapter's reduce-scatter"},
          {"V", "sharded gradient of one adapter"},
          {"v", "Adam's temporaries: square roots for this rank's rows of an adapter"},
          {"z", "an adapter's inner activation, or its gradient"}};
}

}  // namespace tidemark::frozen_reshard
