// The policies of the variants, which differ in where gathered activations live and in what the GLU
// saves; the sizes of a trial; and what the files of the scenario share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cases/tp_buffer_reuse/gather_policy.h"
#include "harness/scenario.h"
#include "reference/memory/kernels.h"

namespace tidemark {
class World;
}

namespace tidemark::tp_buffer_reuse {

struct Policy {
  GatherPolicy gather = GatherPolicy::separate;
  bool fused_glu = false;  // saves its input alone

  /// Gathers again in backward, into a persistent buffer.
  bool recomputes() const { return gather == GatherPolicy::recomputed || overlaps(); }
  /// On a stream of their own, with a second buffer in backward.
  bool overlaps() const {
    return gather == GatherPolicy::asynchronous || gather == GatherPolicy::shared;
  }
};

const VariantTable<Policy>& variants();
/// The policy that has the memory the variant claims; none of a control that claims nothing.
std::optional<Policy> claim_of(const Variant& variant);

/// Sizes by their names, whole and of one rank. Heads, ffn and sequence divide among the ranks.
struct Dimensions {
  explicit Dimensions(const Trial& trial);

  std::int64_t ranks, layers, hidden, ffn, heads, kv_heads;
  std::int64_t sequence, batch;  // a microbatch is sequence * batch rows
  std::int64_t in_flight;        // microbatches
  std::int64_t rounds;           // of a step: so many microbatches forward, then backward
  bool bf16;                     // else single precision
  bool main_weights;  // gradients and Adam's weights in single precision, parameters their copies
  double clip;        // the largest norm of all gradients together; 0: any
  bool cosine;        // AdamW with a rate by the step, else Adam

  std::int64_t microbatches() const { return rounds * in_flight; }  // of a step
  /// "" or, where there are several rounds, "/0" and so on: the end of its phases' names.
  std::string suffix(std::int64_t round) const {
    return rounds == 1 ? "" : "/" + std::to_string(round);
  }
  std::int64_t element() const { return bf16 ? 2 : 4; }  // bytes
  /// Bytes of an element of Adam's weights, of their moments and of their summed gradients.
  std::int64_t updated() const { return main_weights ? 4 : element(); }
  std::int64_t head() const { return hidden / heads; }  // elements
  std::int64_t rows() const { return sequence * batch; }
  std::int64_t shard_rows() const { return rows() / ranks; }
  std::int64_t own_heads() const { return heads / ranks; }
  std::int64_t own_kv_heads() const { return kv_heads / ranks; }
  std::int64_t own_ffn() const { return ffn / ranks; }
  std::int64_t qkv() const { return (own_heads() + 2 * own_kv_heads()) * head(); }
  reference::AttentionShape attention() const {
    return {batch, sequence, own_heads(), own_kv_heads(), head(), bf16};
  }
};

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world);

/// Peaks and ends of forward, backward and optimizer in the last step, in requested, allocated and
/// active bytes. None of a control that claims nothing, nor of a trial of a single step: its first
/// products make workspaces.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);
std::vector<Symbol> symbols();
/// Returns these figures in all four statistics, by the replay of the step's allocations.
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);

Oracle oracle(const Trial& trial);

}  // namespace tidemark::tp_buffer_reuse
