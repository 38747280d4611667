// Blocks are numbered 1 to L; i is the block that works at the moment. A block keeps three
// activations for backward (its input, the wide one, and gelu's result), and x stands for each. In
// mixed precision the converted input is one more (c).
// Forward at block i keeps rest, R, n and (3*(i - 1) + 1 + c)*x, and has at its moments
//   gather ahead   U, the next block's flat buffer and, in mixed precision, the shard converted
//   copy-out       B, U and the table T
//   compute        U and 3*x: wide, active, the result
//   output         after the last block: x, the old and the new output beside it, and the norm's n
// Backward at block i keeps rest, R, n, loss, w and (3*i + 1 + c)*x (one is the gradient that
// arrives), the sharded gradients of the blocks behind and the reduce-scatter input G of the one
// before.
#include <algorithm>
#include <set>

#include "cases/device_facts.h"
#include "cases/fsdp_prefetch/policy.h"
#include "harness/judge/form.h"

namespace tidemark::fsdp_prefetch {
namespace {

using reference::divided;

// Flat buffers that are alive besides the parameters: none; those in use; as many as the rate
// limiter lets wait; all since the first step.
enum class Buffers { none, in_use, deferred, limited, all };

class Paper {
 public:
  Paper(const Trial& trial, const Policy& policy, int rank)
      : trial_(trial),
        policy_(policy),
        layers_(trial["layers"]),
        reshards_(policy.sharding.reshard_after_forward),
        gathers_(trial.ranks > 1),
        mixed_(policy.sharding.stored != policy.sharding.gathered),
        stored_(policy.sharding.stored),
        gathered_(policy.sharding.gathered) {
    name_amounts(rank);
  }

  std::vector<Expectation> all() const {
    const bool recorded = policy_.sharding.records() && gathers_;
    const bool clocked = recorded && trial_.has_clock();
    const bool waits = recorded && trial_.schedule == "lagging";
    const auto in_time = policy_.sharding.layout == GatherLayout::separate_streams
                             ? Buffers::deferred
                         : policy_.sharding.layout == GatherLayout::two_buffers ? Buffers::none
                                                                                : Buffers::in_use;
    const auto waiting = policy_.sharding.in_flight_limit > 0 ? Buffers::limited : Buffers::all;
    auto all = under(gathers_ ? in_time : Buffers::none, {Statistic::allocated});
    const std::vector others{Statistic::active, Statistic::requested};
    if (!clocked) append(all, under(!gathers_ ? Buffers::none : waits ? waiting : in_time, others));
    return all;
  }

 private:
  void name_amounts(int rank) {
    const Bytes hidden = trial_["hidden"], ranks = trial_.ranks, rows = trial_["batch"] / ranks;
    const Bytes shard = divided(hidden, ranks);  // rows of a padded shard
    const Bytes own = std::clamp<Bytes>(hidden - rank * shard, 0, shard);
    const Bytes whole = ranks * shard * hidden, activation = rows * hidden;
    const auto device = current_device_facts();
    const auto several = [](Bytes count, Bytes bytes) {
      return std::vector<Bytes>(static_cast<std::size_t>(count), bytes);
    };
    paper_.count("L", static_cast<double>(layers_));
    paper_.count("k", trial_.steps - 1);
    paper_.tensors("x", {activation * gathered_});
    paper_.tensors("n", several(2, rows * 4));
    paper_.tensors("R", several(2, ranks * shard * gathered_));
    paper_.tensors("U", several(2, whole * gathered_));
    paper_.tensors("B", {2 * whole * gathered_});
    paper_.tensors("B0", {2 * ranks * shard * gathered_});
    paper_.tensors("C", {2 * shard * hidden * gathered_});
    paper_.passing("T", table(device, shard * hidden * gathered_));
    paper_.passing("T0", table(device, shard * gathered_));
    paper_.tensors("d", {hidden * hidden * gathered_});
    paper_.tensors("w", {hidden * gathered_});
    paper_.tensors("loss", {gathered_});
    paper_.tensors("G", {2 * whole * 4});
    paper_.passing("t", 8 * (6 * 2 + 2 + 2 * divided(shard * hidden * 4, kCopied)));
    paper_.tensors("s", {2 * shard * hidden * 4});
    paper_.tensors("S", {2 * shard * hidden * stored_});
    paper_.tensors("S0", {2 * shard * stored_});
    for (const char* each : {"Q", "rest", "rest"}) {  // temporaries of Adam; its two moments
      paper_.tensors(each, several(2 * layers_, own * hidden * stored_));
      paper_.tensors(each, several(2, own * stored_));
    }
    paper_.tensors("rest", several(2 * layers_, shard * hidden * stored_));
    paper_.tensors("rest", several(2, shard * stored_));
    paper_.tensors("rest", {activation * stored_, activation * gathered_, gathered_});
    paper_.tensors("rest", several(2, device.workspace_bytes));
    if (policy_.sharding.layout == GatherLayout::two_buffers && gathers_) {
      const Bytes flat = 2 * whole * gathered_;
      paper_.tensors("rest", {flat, layers_ > 1 ? flat : flat / hidden});
    }
  }

  static constexpr Bytes kCopied = 2048;  // by a block of threads: 128 of them, 16 bytes each

  // Table of split_with_sizes_copy (aten/src/ATen/native/cuda/TensorShape.cu) for two parameters:
  // source, destination and size, a running count of blocks, and an index for each block of
  // threads.
  Bytes table(const reference::DeviceFacts& device, Bytes chunk) const {
    const Bytes ranks = trial_.ranks, blocks = 2 * divided(chunk, kCopied);
    const Bytes resident = device.processors * device.threads_per_processor / 128 * 2;
    const Bytes rounds = divided(blocks * ranks, resident);
    Bytes chunks = 1;
    while (chunks * chunks < rounds) ++chunks;
    const Bytes each = divided(rounds, std::min(chunks, ranks));
    return 8 * (4 * 2 + 1 + 2 * divided(chunk, kCopied * each));
  }

  std::vector<Expectation> under(Buffers buffers, const std::vector<Statistic>& statistics) const {
    std::vector<Expectation> all;
    const auto add = [&](const char* phase, const std::vector<FormMoment>& moments) {
      append(all, paper_.forms(phase, false, statistics, moments));
    };
    add("forward", forward(buffers));
    add("backward", backward(buffers));
    add("optimizer",
        {{"Adam's temporaries", "rest + L*S + S0 + Q" + between_steps(buffers, true)}});
    return all;
  }

  // `n` activations, of which `mixed` precision has one more.
  std::string activations(const std::string& blocks, int n) const {
    n += mixed_ ? 1 : 0;
    const std::string more = n == 0  ? ""
                             : n > 0 ? " + " + std::to_string(n)
                                     : " - " + std::to_string(-n);
    return " + (3*" + blocks + more + ")*x";
  }
  std::string last_two() const { return layers_ > 1 ? " + 2*B" : " + B + B0"; }
  /// Freed blocks of this step's forward, and of its backward too, that wait while nothing is
  /// gathered.
  std::string between_steps(Buffers buffers, bool after_backward) const {
    if (buffers == Buffers::limited) return last_two();
    if (buffers != Buffers::all) return "";
    if (!reshards_) return " + (k + 1)*(L*B + B0)";
    return after_backward ? " + 2*(k + 1)*(L*B + B0)" : " + (2*k + 1)*(L*B + B0)";
  }

  std::vector<FormMoment> forward(Buffers buffers) const {
    const std::string whole = reshards_ ? " + U" : " + L*U", rest = "rest + R + n";
    std::string waiting = between_steps(buffers, false), copying = waiting, ahead = waiting;
    if (buffers == Buffers::in_use) copying = ahead = " + B";
    if (buffers == Buffers::deferred) copying = last_two(), waiting = " + B";
    std::vector<FormMoment> all{
        {"the last block computes", rest + activations("L", 1) + whole + waiting},
        {"the output", rest + " + n" + activations("L", 2) + (reshards_ ? "" : whole) + waiting}};
    if (gathers_)
      all.push_back({"the last block is copied out of its flat buffer",
                     rest + activations("L", -2) + whole + copying + " + T"});
    else if (mixed_)
      all.push_back({"the last block is converted", rest + activations("L", -2) + whole + " + d"});
    if (gathers_ && mixed_ && layers_ > 1 && policy_.explicit_prefetch)
      all.push_back(
          {"the last block's shard is converted, ahead of time",
           rest + activations("L", -5) + (reshards_ ? " + U" : " + (L - 1)*U") + ahead + " + C"});
    return all;
  }

  std::vector<FormMoment> backward(Buffers buffers) const {
    const bool gathers = gathers_ && reshards_;
    // The norms are gathered first, then the last block, ahead of time.
    std::string norms = between_steps(buffers, false), first = norms;
    if (gathers && buffers == Buffers::all) norms += " + B0", first = norms + " + B";
    if (gathers && buffers == Buffers::limited) norms = first = " + B0 + B";
    if (gathers && (buffers == Buffers::in_use || buffers == Buffers::deferred))
      norms = " + B0", first = " + B";
    const std::string rest = "rest + R + loss", whole = reshards_ ? "" : " + L*U";
    std::vector<FormMoment> all{
        {"the last norm's gradients", rest + " + w + 2*n" + activations("L", 3) + whole + first}};
    if (gathers)
      all.push_back({"the norms are copied out of their flat buffer",
                     rest + " + 2*n" + activations("L", 2) + norms + " + T0"});
    if (gathers && mixed_)
      all.push_back({"the last block's shard is converted",
                     rest + " + 2*n" + activations("L", 2) + first + " + C"});
    for (const Bytes i : std::set<Bytes>{1, 2, layers_ - 1, layers_})
      if (i >= 1 && i <= layers_) add_block(i, buffers, gathers, all);
    return all;
  }

  struct Flat {
    std::string copying, ahead, later;
  };
  Flat flat_buffers(Bytes i, Buffers buffers, bool gathers) const {
    const std::string waiting = between_steps(buffers, false);
    if (!gathers) return {waiting, waiting, waiting};
    const std::string next = i > 1 ? " + B" : "";
    switch (buffers) {
      case Buffers::none:
        return {};
      case Buffers::in_use:
      case Buffers::deferred:
        return {" + B", next, next};
      case Buffers::limited:
        return {i == layers_ ? " + B + B0" : " + 2*B", " + 2*B", last_two()};
      case Buffers::all:
        break;
    }
    const std::string own = waiting + " + B0 + (L - i + 1)*B";
    return {own, own + next, own + next};
  }

  void add_block(Bytes i, Buffers buffers, bool gathers, std::vector<FormMoment>& all) const {
    const auto flat = flat_buffers(i, buffers, gathers);
    const std::string behind = i < layers_ ? " + (L - i)*S" : "";
    const std::string rest = "rest + R + n + loss + w";
    const std::string before = rest + activations("i", 1) + behind + (i < layers_ ? " + G" : "") +
                               (reshards_ ? " + U" : " + i*U");
    const std::string after = rest + activations("i", -1) + behind + " + G" +
                              (reshards_ || i == 1 ? "" : " + (i - 1)*U") + flat.later;
    const std::string block = "block " + std::to_string(i);
    const auto add = [&](const std::string& where, const std::string& text) {
      all.push_back({block + ": " + where, text, {{"i", static_cast<double>(i)}}});
    };
    if (gathers) add("copied out of its flat buffer", before + flat.copying + " + T");
    if (!gathers_ && reshards_ && mixed_) add("converted", before + " + d");
    if (gathers && mixed_ && i > 1)
      add("the next one's shard is converted", before + flat.ahead + " + C");
    add("gradient of the second layer", before + flat.later + " + d + x");
    add("gradients of both layers", before + flat.later + " + 2*d");
    add("gradients copied for the reduce-scatter", after + " + 2*d + t");
    add("sharded gradient",
        after + (gathers_ ? " + d" : "") + " + s" + (stored_ == 4 ? "" : " + S"));
  }

  const Trial& trial_;
  const Policy policy_;
  const Bytes layers_;
  const bool reshards_, gathers_, mixed_;
  const Bytes stored_, gathered_;  // bytes of an element
  Vocabulary paper_;
};

}  // namespace

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank) {
  if (variant.role == Role::control || trial.steps < 2) return {};
  return Paper(trial, policy_of(trial, variant.name), rank).all();
}

std::vector<Symbol> symbols() {
  using enum MemoryKind;
  return {
      {"rest",
       "what stays between steps: sharded parameters, Adam's two moments, input, output, loss, "
       "two cuBLAS workspaces, and persistent gather buffers",
       {parameters, optimizer_state, inputs, outputs, workspaces, persistent_buffers}},
      {"L", "number of blocks"},
      {"k", "steps before the last one"},
      {"i", "number of the block that works at the highest moment, from 1"},
      {"x", "one activation of this rank", {activations, gradients}},
      {"n", "statistics of one norm: mean and reciprocal deviation", {activations}},
      {"R", "parameters of the two norms, gathered", {gathered_parameters}},
      {"U", "parameters of one block, gathered: two matrices", {gathered_parameters}},
      {"B", "flat buffer that one block is gathered into", {sharding_buffers}},
      {"B0", "flat buffer that the norms are gathered into", {sharding_buffers}},
      {"C", "shard of one block, converted for the gather (mixed precision)", {sharding_buffers}},
      {"T", "table of the copy out of a flat buffer", {sharding_buffers}},
      {"T0", "table of the copy out of the norms' flat buffer", {sharding_buffers}},
      {"d", "gradient of one matrix, before it is sharded", {gradients}},
      {"w", "gradient of one norm's weight", {gradients}},
      {"loss", "the loss, or its gradient", {outputs, gradients}},
      {"G", "input of one block's reduce-scatter", {sharding_buffers}},
      {"t", "table of the copy into that input", {sharding_buffers}},
      {"s", "output of one block's reduce-scatter, fp32", {gradients}},
      {"S", "sharded gradient of one block", {gradients}},
      {"S0", "sharded gradient of the norms", {gradients}},
      {"Q",
       "Adam's temporaries: one square root for each of this rank's parameters",
       {optimizer_temporaries}}};
}

}  // namespace tidemark::fsdp_prefetch
