// The forms' derivation on paper: which tensors each operator of a pass takes and drops, in order.
// A pass begins with what the passes before it have left.
//
// A microbatch on a stage is not begun, forwarded (F), split (its input pass is done, I), or done
// (W). A checkpointed block keeps its input alone, and takes what it saves when a run of the engine
// first reads some of it; the run's own nodes let go what they have read, and what it does not
// reach stays as long as the node that saved it. Symbols:
//   x           one activation [tokens, hidden]: a block's input, its output's gradient, a stage's
//               output
//   a_w         saved by a block's parameter-owning nodes, its input apart: released by the weight
//               pass
//   a_n         saved by its other nodes: released only at the end of the graph. Attention's output
//               is among them, for attention reads it again, although the output projection owns it
//   g           gradients taken down at a block's intermediates, its output's apart
//   logits, logp (log-probabilities, and the loss's weight), loss
//   f, k        one activation [tokens, ffn]; keys, or values, of a block
//   merged      the logits of all microbatches
//   s           one number a token in single precision: what a norm saves beside its input
//   y           [tokens, hidden] in single precision: what a norm in floats saves of its input,
//               which it does not keep itself. Besides it saves s, and what it multiplies with its
//               weight, an x
//   sum         where such a norm's weight gradient is summed over the tokens
//               (reference::SumOfRowsPlan)
//   lse, random what attention keeps beside queries, keys, values and output
//   parts       temporaries of flash attention's forward, where it divides the keys
//   delta, acc  of attention's backward: row sums, and the accumulator of the queries' gradient
//   wide        the logits in single precision
//   w_n, w_q, w_k, w_f, w_v   one gradient of a norm, a projection [hidden, hidden], one of keys or
//               values, one [ffn, hidden], one [vocabulary, hidden]
//   idx, sort, uniq, rows   of the embedding's gradient, where it sorts its tokens
//               (reference::LookupPlan): an index a token, CUB's temporaries, what the sums take
//   W           the gradients of all parameters of a block
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cases/zero_bubble_detach/policy.h"

namespace tidemark::zero_bubble_detach {

/// By symbol: how many.
using Terms = std::map<std::string, double>;

/// A stage, and what it keeps besides what its passes need. Unless HandOver::moved, tensors from a
/// neighbour are in a receive buffer, and belong to `rest`: `input_stays` and `output_stays` are
/// then false.
struct HeldStage : StagePlace {
  HeldStage(const Sizes& sizes, const StagePolicy& policy, const PipelineSchedule& schedule,
            const StagePlace& place);

  StagePolicy policy;
  /// HandOver::stays, and the neighbour is on the same rank.
  bool input_handed = false, output_handed = false;
  bool floats;  // norms are written out in floats
  double blocks;
  double again;         // of these checkpointed,
  double again_inner;   // and of these all but the stage's first block
  double runs_a_block;  // of the engine, in a block's weight pass
  bool splits;          // else input and weight pass are one
  bool input_leaks;     // input_stays, and the stage before leaks no output

  /// Memory of a microbatch whose backward was split, for as long as something leads to its graph.
  Terms graph() const;
  /// Memory that goes with a microbatch's loss, when all passes are over; of the last stage.
  Terms of_loss() const;
  bool keeps_output() const { return !policy.roots_as_edges && !output_handed; }
  /// Its output goes with the last pass, besides what is handed on.
  bool output_goes() const { return policy.habits.outputs_go && !last; }
  bool keeps_input_gradient(bool whole) const {
    const auto& its = policy.habits;
    return !input_handed && (whole ? its.whole_input_gradients_stay : its.input_gradients_stay);
  }
  bool keeps_last_gradient() const { return policy.habits.last_input_gradient_stays && !first; }
  bool keeps_sent_gradient() const { return policy.habits.sent_gradient_stays && !first; }
  /// Whether what it returns when the step ends leads to the graph of a split backward.
  bool root_stays() const {
    if (policy.roots_as_edges || output_goes()) return false;
    return last ? !policy.detach_last || !policy.detach_loss : !policy.detach_outputs;
  }
  bool keeps_loss_graph() const {
    return !policy.detach_loss && !policy.roots_as_edges && !policy.release;
  }
  /// Leak of a microbatch: what is still held after the step that it belonged to.
  Terms leaked() const;
};

/// The tensors that each symbol stands for, in requested bytes.
using TensorBytes = std::map<std::string, std::vector<Bytes>>;

class Ledger {
 public:
  /// `parts`: symbols that are sums of others, as counts of these.
  Ledger(const TensorBytes& tensors, std::map<std::string, Terms> parts);

  struct Moment {
    std::string where;
    Terms terms;
    double bytes = -1;
  };

  void add(const Terms& terms, double count = 1);
  void take(const std::string& symbol, double count = 1) { now_[symbol] += count; }
  void drop(const std::string& symbol, double count = 1) { now_[symbol] -= count; }
  /// One `symbol` is from now on counted as its parts; close() is the opposite.
  void open(const std::string& symbol);
  void close(const std::string& symbol);
  /// A moment that may be the highest.
  void moment(const std::string& where);
  const Terms& now() const { return now_; }

  /// The highest so far by each of these measures: requested bytes; every tensor rounded to 512
  /// bytes; and besides, 1 MiB for each tensor above that (see Vocabulary).
  const std::array<Moment, 3>& highest() const { return highest_; }

 private:
  std::map<std::string, std::array<double, 3>> bytes_;  // of a symbol, by measure
  std::map<std::string, Terms> parts_;
  Terms now_;
  std::array<Moment, 3> highest_;
};

/// Of every symbol its tensors.
TensorBytes pass_tensors(const Sizes& sizes, const reference::DeviceFacts& device);
/// a_w, a_n, g, logp and W as counts of the other symbols.
std::map<std::string, Terms> pass_parts(const Sizes& sizes, const reference::DeviceFacts& device);
/// The gradients of a stage's parameters.
Terms gradients_of(const HeldStage& stage);

class Passes {
 public:
  Passes(const Sizes& sizes, const reference::DeviceFacts& device, Ledger& ledger);

  /// `fresh`: the stage has no gradients yet, so that this pass leaves its own. `left`: the stage
  /// has the last gradient of its input of the step before, until its backward.
  struct Stage {
    HeldStage held;
    bool fresh = false, left = false;
    bool ends_at_input() const { return !held.input_stays; }
  };
  void forward(const Stage& stage, const std::string& where);
  void input(const Stage& stage, const std::string& where);
  void weight(const Stage& stage, const std::string& where);
  void backward(const Stage& stage, const std::string& where);

 private:
  struct Group;
  bool checkpointed(const Stage& stage, int block) const {
    return z_.checkpointed(stage.held.first_layer + block);
  }
  std::vector<Group> block_groups(const Stage& stage, int block) const;
  std::vector<Group> head_groups() const;
  Group norm_group(const std::string& name, double inputs) const;
  /// `block`: -1 at the head.
  void run_groups(const Stage& stage, const std::vector<Group>& groups, int block,
                  const std::string& where);

  static std::string in_block(int block) { return ", block " + std::to_string(block) + ": "; }
  void attention_backward(const std::string& where);
  void embedding_backward(const Stage& stage, const std::string& where);
  void loss_backward(bool whole, const std::string& where);
  /// A norm, and what it saves (its input apart); the gradient of its input in the input pass; that
  /// and its weight's in a whole backward. `inputs`: x that go with its node.
  void norm(const std::string& where);
  void norm_input(bool again, double inputs, const std::string& where);
  void norm_backward(const Stage& stage, bool again, double inputs, const std::string& where);
  /// Memory that a block saves, up to the last saved tensor.
  void save_block(const std::string& where);
  void run_again(const std::string& where);
  /// Memory that attention saves; memory that a block saves, without its input.
  Terms attention_saved() const;
  Terms saved_by_block(bool by_parameters_alone = false) const;
  void forward_checkpointed(const std::string& where);
  void block_backward(const Stage& stage, int block, bool whole, const std::string& where);
  /// Memory that the operator of a weight's gradient takes around `computed`, which takes the
  /// gradient itself. `again`: the tensors that the node reads exist for this run alone.
  void gradient(bool by_tokens, bool again, const std::string& where,
                const std::function<void()>& computed);
  /// A parameter's gradient beside what else the operator takes.
  void gradient(const Stage& stage, const std::string& symbol, const std::string& where);
  /// Those of a run of the weight pass, which has ended.
  void computed(const Stage& stage, const Terms& gradients);
  /// The copy of what has arrived at a group.
  void copied(const Stage& stage, const Group& group, bool first, const std::string& where);
  void gradients_done(const Stage& stage);

  const Sizes z_;
  const bool floats_, sums_, sorts_;
  const reference::AttentionPlan attention_;
  Ledger& l_;
  Terms gradients_;  // of the stage, as far as this pass has them
  Terms lingering_;  // weight gradients that have been added to them, of the last run
  Terms copied_;     // what has arrived at the group before, once more
};

}  // namespace tidemark::zero_bubble_detach
