// What a pipeline stage of the model of language_model.h holds of a microbatch when its backward is
// split, on paper. A microbatch on a stage is not begun, forwarded (F), split (its input pass is
// done, I), or done (W); what it holds in each state is a sum of
//   x    one activation [tokens, hidden]: a block's input, its output's gradient, a stage's output
//   a_w  saved by a block's parameter-owning nodes, its input apart: released by the weight pass
//   a_n  saved by its other nodes: released only at the end of the graph. Attention's output
//        is among them, for attention reads it again, although the output projection owns it too
//   g    gradients taken down at a block's intermediates, its output's apart
//   logits, logp (log-probabilities, and the loss's weight), s (what a norm saves beside x), loss
// Nothing here is measured.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tidemark::reference {

/// By unit: how many.
using Terms = std::map<std::string, double>;

struct MicrobatchShape {
  bool transformer = true;  // else MLP blocks
  bool bf16 = false;        // else single precision
  std::int64_t tokens = 1, hidden = 1, ffn = 1, heads = 1, kv_heads = 1, sequence = 1,
               vocabulary = 1;
};

struct HeldStage {
  bool transformer = true;
  bool first = false, last = false;                // of the pipeline
  bool input_stays = false, output_stays = false;  // the neighbour is on the same rank
  double blocks = 1;
  double again = 0;         // of these checkpointed,
  double again_inner = 0;   // and of these all but the stage's first block
  double runs_a_block = 1;  // of the engine, in a block's weight pass
  bool splits = true;       // else input and weight pass are one
  // What is dropped: outputs (not the last stage's), the loss, the last stage's outputs, captured
  // gradients and hooks, what only the input pass has read; and roots are held as gradient edges.
  bool detach_outputs = false, detach_loss = false, detach_last = false;
  bool clean_hooks = false, release = false, roots_as_edges = false;
  // Cycles that outlive the step: of the hooks, and of every whole backward (its root and
  // gradient).
  bool never_collects = false, backward_cycle = false;
  bool input_leaks = false;  // input_stays, and the stage before leaks no output

  Terms forwarded() const;
  Terms split() const;
  Terms done() const;
  /// Leak of a microbatch: what is still held after the step that it belonged to.
  Terms leaked() const;

 private:
  bool keeps_loss_graph() const { return !detach_loss && !roots_as_edges && !release; }
  Terms returned() const;
  void add_gradients(Terms& terms) const;
};

}  // namespace tidemark::reference
