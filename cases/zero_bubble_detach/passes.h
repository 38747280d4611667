// The passes of a stage as tables: which tensors each operator takes and drops, in order, on paper.
// A pass begins with what the rank holds before it and ends with what reference::HeldStage says
// for after it; a test holds the two against each other. A checkpointed block keeps its input
// alone, and takes what it saves when a run of the engine first reads some of it; the run's own
// nodes let go what they have read, and what it does not reach stays as long as the node that saved
// it.
//
// Symbols, besides those of reference/language_model_plan.h (x, a_w, a_n, g, logits, logp, loss):
//   f, k        one activation [tokens, ffn]; keys, or values, of a block
//   s           one number a token in single precision: what a norm saves beside its input
//   lse, random what attention keeps beside queries, keys, values and output
//   parts       temporaries of flash attention's forward, where it divides the keys
//   delta, acc  of attention's backward: row sums, and the accumulator of the queries' gradient
//   wide        the logits in single precision
//   w_n, w_q, w_k, w_f, w_v   one gradient of a norm, a projection [hidden, hidden], one of keys or
//               values, one [ffn, hidden], one [vocabulary, hidden]
//   idx, sort, uniq, rows   of the embedding's gradient, where it sorts its tokens
//               (reference/lookup_plan.h): an index a token, CUB's temporaries, what the sums take
//   W           the gradients of all parameters of a block
#pragma once

#include <string>
#include <vector>

#include "cases/zero_bubble_detach/ledger.h"
#include "cases/zero_bubble_detach/model.h"
#include "reference/memory/replay.h"

namespace tidemark::zero_bubble_detach {

/// Of every symbol its tensors.
Tensors pass_tensors(const Sizes& sizes, const reference::DeviceFacts& device);
/// a_w, a_n, g, logp and W as counts of the other symbols.
std::map<std::string, Terms> pass_parts(const Sizes& sizes, const reference::DeviceFacts& device);
/// The gradients of a stage's parameters.
Terms gradients_of(const reference::HeldStage& stage);

class Passes {
 public:
  Passes(const Sizes& sizes, const reference::DeviceFacts& device, Ledger& ledger);

  /// `fresh`: the stage has no gradients yet, so that this pass leaves its own. `one_task`:
  /// StagePolicy::one_weight_task. `checkpointed`: by block.
  struct Stage {
    reference::HeldStage held;
    std::vector<bool> checkpointed;
    bool fresh = false, one_task = false;
    bool again(int block) const { return checkpointed[static_cast<std::size_t>(block)]; }
    bool ends_at_input() const { return !held.input_stays; }
  };
  void forward(const Stage& stage, const std::string& where);
  void input(const Stage& stage, const std::string& where);
  void weight(const Stage& stage, const std::string& where);
  void backward(const Stage& stage, const std::string& where);

 private:
  struct Group;
  std::vector<Group> block_groups(const Stage& stage, int block) const;
  std::vector<Group> head_groups() const;
  void run_groups(const Stage& stage, const std::vector<Group>& groups, bool again,
                  const std::string& where);
  void run_together(const Stage& stage, std::vector<Group> groups, int block,
                    const std::string& where);

  static std::string in_block(int block) { return ", block " + std::to_string(block) + ": "; }
  void attention_backward(const std::string& where);
  void embedding_backward(const Stage& stage, const std::string& where);
  void loss_backward(const std::string& where);
  /// What a block saves, until it has saved the last of it.
  void save_block(const std::string& where);
  /// What attention saves; what a block does, its input apart.
  Terms attention_saved() const;
  Terms saved_by_block(bool by_parameters_alone = false) const;
  void forward_checkpointed(const std::string& where);
  void block_input(bool again, const std::string& where);
  void block_backward(const Stage& stage, int block, const std::string& where);
  /// A parameter's gradient beside what else the operator takes.
  void gradient(const Stage& stage, const std::string& symbol, const std::string& where);
  void gradients_done(const Stage& stage);

  const bool transformer_, bf16_, parts_, grouped_, repeats_, copies_, by_head_, sorts_;
  const std::string repeated_;  // the symbol of keys as attention reads them
  Ledger& l_;
  Terms gradients_;  // of the stage, as far as this pass has them
};

}  // namespace tidemark::zero_bubble_detach
