// The forms: the peaks of the last forward and the last backward of a step, hence the step's. Units
// are whole (U) one at a time, in a buffer (B) before they are, and besides
//   in backward   the frozen units behind that nothing reshards before its end; with hooks on the
//                 inputs the one behind, until the gradient between them is there; the unit before,
//                 gathered ahead (B); the input of the reduce-scatter before (R)
//   in forward    the buffer of the unit before; frozen units that backward has left whole
// so the peak is where a unit is gathered, computes, or is reduced. kFormed says of which trials
// that holds; the accounts of the replay have all of them.
#include <algorithm>
#include <tuple>

#include "cases/device_facts.h"
#include "cases/frozen_reshard/policy.h"
#include "harness/judge/form.h"

namespace tidemark::frozen_reshard {
namespace {

struct Unit {
  std::int64_t layer;
  bool frozen, adapter, needs;  // needs: its layer's input needs a gradient
  // Backward reaches it; its end is signalled before backward ends; it stays whole after it.
  bool reached, end_signalled, kept;
  bool replicated;            // whole at rest, and never gathered
  bool unreduced, reduced;    // it has a gradient by an earlier backward of the step
  std::vector<Bytes> shards;  // bytes of its weights' padded shards
  const char *whole, *buffer, *table, *gradient, *input, *chunks, *shard;  // symbols
};

class Paper {
 public:
  Paper(const Setup& setup, const reference::DeviceFacts& device) : s_(setup) {
    const Bytes h = s_.hidden, r = s_.adapter_rank, e = s_.sharding.stored, n = s_.ranks;
    const auto& [frozen, synced] = s_.steps.back();
    const auto first = std::ranges::find(frozen, false) - frozen.begin();
    const auto lowest = s_.input_gradient ? 0 : r > 0 ? first / 2 : first;
    paper_.tensors("x", {s_.rows * h * e});
    paper_.tensors("z", {s_.rows * r * e});
    paper_.tensors("c", {e});
    paper_.tensors("G", {h * h * e});
    paper_.tensors("g", {r * h * e});
    paper_.tensors("rest", {e, device.workspace_bytes, device.workspace_bytes});
    for (std::size_t k = 0; k < frozen.size(); ++k) {
      Unit u{.layer = static_cast<std::int64_t>(r > 0 ? k / 2 : k), .frozen = frozen[k]};
      u.adapter = r > 0 && k % 2 == 1;
      u.needs = u.layer > lowest || s_.input_gradient;
      u.reached = u.layer >= lowest && (u.needs || !u.frozen);
      u.end_signalled = u.needs && (!u.frozen || s_.sharding.frozen == FrozenReshard::input_node ||
                                    s_.sharding.hooks_frozen());
      u.replicated = u.frozen && s_.sharding.replicates_frozen();
      u.kept = u.frozen && u.reached && s_.sharding.frozen == FrozenReshard::never;
      for (std::size_t m = 0; m + 1 < synced.size() && !u.frozen; ++m)
        u.unreduced = !synced[m][k], u.reduced = u.reduced || synced[m][k];
      std::tie(u.whole, u.buffer, u.table, u.gradient, u.input, u.chunks, u.shard) =
          u.adapter ? std::tuple("P", "F", "u", "g", "E", "j", "V")
                    : std::tuple("U", "B", "t", "G", "R", "i", "S");
      for (const auto& [rows, columns] : u.adapter ? Weights{{r, h}, {h, r}} : Weights{{h, h}}) {
        const Bytes m = (rows + n - 1) / n, own = std::clamp<Bytes>(rows - s_.rank * m, 0, m);
        u.shards.push_back(m * columns * e);
        paper_.tensors("rest", {(u.replicated ? rows : m) * columns * e});
        if (!u.frozen) paper_.tensors("rest", {own * columns * e, own * columns * e});
      }
      units_.push_back(u);
      if (k < (r > 0 ? 2 : 1)) name_amounts(u, device);
    }
  }

  std::vector<Expectation> forms() const {
    const auto suffix = s_.suffix(s_.microbatches - 1);
    auto all = paper_.forms("forward" + suffix, false, kOnPaper, forward());
    append(all, paper_.forms("backward" + suffix, false, kOnPaper, backward()));
    return all;
  }

 private:
  using Weights = std::vector<std::pair<Bytes, Bytes>>;  // rows, columns

  void name_amounts(const Unit& u, const reference::DeviceFacts& device) {
    Bytes sum = 0;
    for (const Bytes shard : u.shards) sum += shard, paper_.tensors(u.whole, {s_.ranks * shard});
    for (const char* flat : {u.buffer, u.input}) paper_.tensors(flat, {s_.ranks * sum});
    paper_.tensors(u.shard, {sum});
    paper_.passing(u.table, reference::copy_out_table(u.shards, s_.ranks, device));
    paper_.passing(u.chunks, reference::copy_in_table(u.shards));
  }

  /// At rest, the inputs, and what the layers before `layer` save of them (the first layer's is the
  /// input); gradients where all units from `k` on are through with their backward.
  Alive around(std::int64_t layer, std::size_t k) const {
    Alive alive{{"rest", 1}, {"x", s_.microbatches + (s_.microbatches - 1) * s_.input_gradient}};
    for (std::size_t j = 0; j < units_.size(); ++j) {
      const Unit& u = units_[j];
      const bool saves = !u.frozen && u.layer < layer, passed = j >= k && u.reached;
      alive.add({{"x", saves && u.layer > 0}, {"z", saves && u.adapter}});
      alive.add(u.gradient,
                (1 + u.adapter) * (!u.frozen && (passed ? !u.end_signalled : u.unreduced)));
      alive.add(u.shard, !u.frozen && (u.reduced || (passed && u.end_signalled)));
    }
    return alive;
  }

  /// The buffer of the unit before `k` that is sharded, if there is one.
  Alive before(std::size_t k) const {
    while (k-- > 0)
      if (!units_[k].replicated) return {{units_[k].buffer, 1}};
    return {};
  }

  static FormMoment moment(const char* what, std::size_t k, const Alive& alive) {
    return {what + std::string(" of unit ") + std::to_string(k), alive.text()};
  }

  std::vector<FormMoment> forward() const {
    std::vector<FormMoment> all;
    Alive buffer;                            // of the last unit that was gathered
    Alive begin = around(0, units_.size());  // the new input comes before the old one goes
    begin.add("x", 1 + s_.input_gradient);
    for (const Unit& u : units_) begin.add(u.whole, u.kept);
    all.push_back({"the input", begin.text()});
    for (std::size_t k = 0; k < units_.size(); ++k) {
      const Unit& u = units_[k];
      Alive alive = around(u.layer, units_.size());
      alive.add({{"x", (u.layer > 0) + u.adapter}, {u.whole, !u.replicated}});
      for (std::size_t j = k + 1; j < units_.size(); ++j)
        alive.add(units_[j].whole, units_[j].kept);
      const Alive own{{u.buffer, 1}};
      if (!u.kept && !u.replicated) {
        all.push_back(moment("gathering", k, alive + buffer + own + Alive{{u.table, 1}}));
        buffer = own;
      }
      if (!u.adapter) all.push_back(moment("product", k, alive + buffer + Alive{{"x", 1}}));
    }
    return all;
  }

  std::vector<FormMoment> backward() const {
    std::vector<FormMoment> all;
    Alive input, late, behind;  // of the last reduce-scatter; whole units; whole until hooks run
    Alive ahead;                // buffer of the unit that is gathered before its turn
    for (std::size_t k = units_.size(); k-- > 0;) {
      const Unit& u = units_[k];
      if (!u.reached) continue;
      const Alive base = around(u.layer, k + 1) + late + Alive{{"c", 2}};
      if (!u.replicated) ahead = before(k);
      // The gradients of its output and, by its adapter, of its input; what its layer still saves.
      const bool after_adapter = s_.adapter_rank > 0 && !u.adapter;
      Alive at =
          base + input + Alive{{u.whole, !u.replicated}, {"x", 1 + (after_adapter && u.needs)}};
      if (!after_adapter) at.add({{"x", !u.frozen && u.layer > 0}, {"z", u.adapter}});
      if (!u.replicated)
        all.push_back(moment("gathering", k, at + behind + Alive{{u.buffer, 1}, {u.table, 1}}));
      if (!u.adapter)
        all.push_back(moment("product", k, at + ahead + Alive{{"x", u.needs}, {"G", !u.frozen}}));
      for (const Alive& own : {Alive{{"x", 1}, {"z", 1}, {"g", 1}}, Alive{{"g", 2 - u.unreduced}}})
        if (u.adapter && !u.needs)  // nothing is gathered after it
          all.push_back(
              moment("product", k, base + input + ahead + own + Alive{{u.whole, 1}, {"z", 1}}));
      if (u.frozen && !u.end_signalled) late.add(u.whole, !u.replicated);
      const bool hooks = s_.sharding.hooks_frozen() && s_.adapter_rank == 0;
      behind = {{u.whole, hooks && u.frozen && u.end_signalled}};
      if (!u.frozen && u.end_signalled) input = {{u.input, 1}};
      if (u.frozen || u.adapter) continue;
      const Alive reducing = base + (u.end_signalled ? ahead : Alive()) +
                             Alive{{"x", u.needs}, {"R", 1}, {"G", !u.unreduced}};
      for (const char* beside : {"i", "S"})
        all.push_back(moment("reducing", k, reducing + Alive{{beside, 1}}));
    }
    return all;
  }

  const Setup s_;
  std::vector<Unit> units_;
  Vocabulary paper_;
};

}  // namespace

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank) {
  const auto pattern = static_cast<FreezingPattern>(trial["pattern"]);
  const auto rows = trial["batch"] / trial.ranks / trial["microbatches"];
  const bool formed =
      trial.ranks > 1 && pattern < FreezingPattern::mixed &&
      trial["layout"] + trial["shared_input"] + trial["thaw_step"] == 0 &&
      trial["reshard_after_forward"] * trial["backward_prefetch"] > 0 &&
      trial["in_flight"] * (trial["microbatches"] - 1) == 0 &&
      (!has_adapters(pattern) || (!variants()[variant.name].sharding.replicates_frozen() &&
                                  8 * std::max(trial["adapter_rank"], rows) <= trial["hidden"]));
  if (variant.role == Role::control || trial.steps < 2 || !formed) return {};
  return Paper(setup_of(trial, variants()[variant.name], rank), current_device_facts()).forms();
}

std::vector<Symbol> symbols() {
  using enum MemoryKind;
  return {
      {"rest",
       "what stays between steps besides the inputs: sharded parameters (`replicated`: of frozen "
       "units whole ones), Adam's two moments of those that are trained, shared inputs, the loss, "
       "two cuBLAS workspaces",
       {parameters, optimizer_state, inputs, outputs, workspaces}},
      {"x",
       "one activation of this rank's rows of a microbatch, its gradient, its distance from the "
       "target, or an input",
       {activations, gradients, inputs}},
      {"c", "loss of one microbatch, or its weight in the step's", {outputs, gradients}},
      {"s", "gradient of one shared input", {gradients}},
      {"U",
       "one weight of a layer, or its flat parameter, gathered",
       {gathered_frozen_parameters, gathered_parameters}},
      {"B", "buffer that a layer is gathered into", {sharding_buffers}},
      {"R",
       "input of the reduce-scatter of a layer's gradient (layout=flat: the gradient padded, "
       "where the ranks do not divide it)",
       {sharding_buffers}},
      {"t", "table of the copy out of a layer's buffer", {sharding_buffers}},
      {"G",
       "gradient of one layer's weight, before it is sharded; layout=flat: also of the flat "
       "parameter",
       {gradients}},
      {"i", "table of the copy into a layer's reduce-scatter", {sharding_buffers}},
      {"S", "sharded gradient of one layer", {gradients}},
      {"d",
       "Adam's temporary: square root for this rank's rows of a layer",
       {optimizer_temporaries}},
      {"P",
       "parameters of adapters, gathered: two weights each, or one flat parameter",
       {gathered_parameters}},
      {"F", "buffer that an adapter is gathered into", {sharding_buffers}},
      {"E", "input of the reduce-scatter of an adapter's gradients, as R", {sharding_buffers}},
      {"u", "table of the copy out of an adapter's buffer", {sharding_buffers}},
      {"g", "gradient of one of an adapter's two weights, before it is sharded", {gradients}},
      {"f",
       "gradient of an adapter's flat parameter (layout=flat), before it is sharded",
       {gradients}},
      {"j", "table of the copy into an adapter's reduce-scatter", {sharding_buffers}},
      {"V", "sharded gradient of one adapter", {gradients}},
      {"v",
       "Adam's temporaries: square roots for this rank's rows of adapters",
       {optimizer_temporaries}},
      {"z", "an adapter's inner activation, or its gradient", {activations, gradients}}};
}

}  // namespace tidemark::frozen_reshard
