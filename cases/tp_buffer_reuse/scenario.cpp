// Tensor parallelism with sequence parallelism gathers the input of every column linear along the
// sequence. A differentiable all-gather followed by a product leaves the gathered tensor, t times
// the shard, in autograd's hands until backward, and an eager GLU leaves both of its factors beside
// its input. Needless: the shard can be gathered again into one persistent buffer, and a factor
// computed again. Seen in nanotron before its tensor-parallel buffers were reworked.
#include "harness/scenario.h"

#include <algorithm>

#include "cases/device_facts.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "harness/judge/counts.h"

namespace tidemark {
namespace tp_buffer_reuse {

const VariantTable<Policy>& variants() {
  using enum GatherPolicy;
  static const VariantTable<Policy> all{{
      {{"separate", Role::baseline,
        "a differentiable all-gather, then a product: every gathered activation is kept for the "
        "weight gradient, which reads it, and the GLU keeps both of its factors. The output of a "
        "reduce-scatter is kept by nothing, under any policy: it is freed once it is added to the "
        "residual stream"},
       {separate, false}},
      {{"recompute", Role::fixed,
        "all-gather and product are one Function that gathers into a persistent buffer, keeps the "
        "shard and gathers again in backward. Slower on our clock, which counts kernels and "
        "collectives: these are one all-gather more for each column linear, and none less"},
       {recomputed, false}},
      {{"fused_glu", Role::fixed,
        "gathered activations are kept as in the baseline; the GLU alone is one Function that "
        "keeps its input"},
       {separate, true}},
      {{"no_recompute_fused_glu", Role::fixed,
        "gathered activations are kept; the GLU is one Function that keeps its input alone"},
       {cached, true}},
      {{"recompute_fused_glu", Role::fixed, "gathered again in backward, and the GLU fused"},
       {recomputed, true}},
      {{"async", Role::fixed,
        "gathered again and fused, with collectives on their own stream and a second buffer for "
        "the gathered gradients of backward"},
       {asynchronous, true}},
      {{"no_recompute", Role::control,
        "one Function that gathers into a fresh tensor and keeps it: saves nothing by itself",
        "memory/"},
       {cached, false}},
      {{"aliased", Role::control,
        "every collective writes one persistent buffer, and what autograd has saved is that buffer",
        "parity/"},
       {aliased, true}},
      {{"aliased_by_name", Role::control,
        "one persistent buffer for all-gathers, another for reduce-scatters: still overwritten "
        "before backward reads it",
        "parity/"},
       {aliased_by_name, true}},
      {{"async_shared", Role::control,
        "asynchronous, but the two gathers of backward share a buffer without a wait", "race/"},
       {shared, true}},
  }};
  return all;
}

std::optional<Policy> claim_of(const Variant& variant) {
  Policy policy = variants()[variant.name];
  if (variant.role != Role::control) return policy;
  // The Function alone, without gathering again, would save the gathers.
  if (policy.gather != GatherPolicy::cached) return std::nullopt;
  policy.gather = GatherPolicy::recomputed;
  return policy;
}

Dimensions::Dimensions(const Trial& trial)
    : ranks(trial.ranks),
      layers(trial["layers"]),
      hidden(trial["hidden"]),
      ffn(trial["ffn"]),
      heads(trial["heads"]),
      kv_heads(trial["kv_heads"]),
      sequence(trial["sequence"]),
      batch(trial["microbatch"]),
      in_flight(trial["in_flight"]),
      rounds(trial["accumulation"]),
      bf16(trial["precision"] == 1),
      main_weights(trial["main_weights"] == 1),
      clip(static_cast<double>(trial["clip"]) / 100),
      cosine(trial["optimizer"] == 1) {}

namespace {

std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  const auto verdict = [&](const std::string& operation, const std::string& form) {
    Formula expected{"0", {}};
    if (trial.ranks > 1) {
      expected = {"steps*K*q*L*(" + form + ")",
                  {{"steps", trial.steps},
                   {"K", static_cast<double>(trial["accumulation"])},
                   {"q", static_cast<double>(trial["in_flight"])},
                   {"L", static_cast<double>(trial["layers"])},
                   {"n_c", 2},
                   {"n_r", 2}}};
    }
    const auto called = record.counters.collectives.find(operation);
    const bool none = called == record.counters.collectives.end();
    return equal("cost/" + operation, expected, none ? 0 : static_cast<double>(called->second),
                 "calls");
  };
  // A column linear gathers in forward and scatters in backward, a row linear the other way round;
  // what is not kept is gathered once more.
  const bool again = variants()[variant.name].recomputes();
  return {verdict("all_gather", again ? "n_c + n_r + n_c" : "n_c + n_r"),
          verdict("reduce_scatter", "n_c + n_r")};
}

std::string unfit(const Trial& trial) {
  for (const char* name : {"heads", "kv_heads", "ffn", "sequence"}) {
    if (trial[name] % trial.ranks != 0) {
      return std::string(name) + "=" + std::to_string(trial[name]) + " does not divide among " +
             std::to_string(trial.ranks) + " ranks; set a multiple";
    }
  }
  if (trial["main_weights"] == 1 && trial["precision"] == 0)
    return "precision=fp32 main_weights=yes: the parameters are in single precision already; set "
           "precision=bf16 or main_weights=no";
  if (const auto rows = Dimensions(trial).shard_rows(); rows > 65536) {
    return "a rank gets " + std::to_string(rows) +
           " rows, of at most 65536; set a smaller sequence or microbatch";
  }
  return without_attention(trial);
}

Params size(std::int64_t layers, std::int64_t hidden, std::int64_t ffn, std::int64_t heads,
            std::int64_t kv_heads, std::int64_t sequence, std::int64_t in_flight,
            std::int64_t precision) {
  return {{"layers", layers},       {"hidden", hidden},       {"ffn", ffn},
          {"heads", heads},         {"kv_heads", kv_heads},   {"sequence", sequence},
          {"microbatch", 1},        {"in_flight", in_flight}, {"accumulation", 1},
          {"precision", precision}, {"main_weights", 0},      {"clip", 0},
          {"optimizer", 0}};
}

}  // namespace
}  // namespace tp_buffer_reuse

Scenario tp_buffer_reuse_scenario() {
  using namespace tp_buffer_reuse;
  Scenario s;
  s.name = "tp_buffer_reuse";
  s.title = "tensor-parallel all-gather buffers";
  s.kept = "by autograd until their backward";
  s.seen = {pull_request("huggingface/nanotron", 203,
                         "gathered activations that autograd keeps, and a GLU of two tensors: one "
                         "buffer for all (wrong at first: the loss differed), then one Function"),
            pull_request("huggingface/nanotron", 208,
                         "the same with asynchronous communication, and figures of Llama-8B")};
  s.story =
      "A tensor-parallel column linear gathers its input along the sequence. If the gather is an "
      "operation of its own, autograd keeps the gathered activation, as large as on one GPU, for "
      "every layer and every microbatch in flight. Gathering again in backward, into a persistent "
      "buffer, keeps the shard alone, at the price of one more all-gather per column linear; "
      "handing out that buffer as the activation itself computes the right loss once and wrong "
      "gradients for ever.";
  s.parameters = {
      {"layers", "transformer blocks of this pipeline stage", 1, 512, true},
      {"hidden", "width of the residual stream", 8, 65536},
      {"ffn", "width of the GLU, over all ranks", 1, 262144},
      {"heads", "attention heads of queries, over all ranks", 1, 512},
      {"kv_heads", "attention heads of keys and values, over all ranks", 1, 512},
      {"sequence", "tokens of a sequence, over all ranks", 2, 1048576, true},
      {"microbatch", "sequences of a microbatch", 1, 64},
      {"in_flight", "microbatches whose forward is done before the first backward", 1, 64, true},
      {"accumulation",
       "rounds of a step: forwards of the microbatches in flight, then their backwards, whose "
       "gradients are added to those of the rounds before",
       1, 64},
      choice("precision", "of parameters and activations", {"fp32", "bf16"}),
      on_off("main_weights",
             "yes: gradients are added up in single precision, and Adam updates weights in single "
             "precision; the parameters are rounded copies of these weights"),
      {"clip",
       "largest norm of all gradients of all ranks together, in hundredths; larger ones are "
       "scaled down to it, and 0 leaves them as they are",
       0, 1000000},
      choice("optimizer",
             "adam: with a rate of 1e-3; adamw_cosine: beta2 of 0.95, decay of 0.01, and a rate "
             "that rises to 3e-4 in two steps and falls to 1e-5 along a cosine in 198 more",
             {"adam", "adamw_cosine"})};
  // The document's comparison of losses over a hundred steps: 64 sequences of 512 tokens a
  // microbatch, two rounds a step, gradients added up in single precision, clipped, a cosine.
  Params tiny_llama = size(12, 768, 3072, 16, 16, 512, 1, 1);
  tiny_llama["microbatch"] = 64;
  tiny_llama["accumulation"] = 2;
  tiny_llama["main_weights"] = tiny_llama["optimizer"] = 1;
  tiny_llama["clip"] = 100;
  // The same twelve times narrower and with 16 tokens, so that a CPU has the losses in a night.
  Params losses = tiny_llama;
  losses["hidden"] = 64;
  losses["ffn"] = 256;
  losses["heads"] = losses["kv_heads"] = 8;
  losses["sequence"] = 16;
  losses["microbatch"] = 1;
  Params llama70b = size(20, 8192, 28672, 64, 8, 8192, 4, 1);
  llama70b["main_weights"] = 1;
  s.sizes = {{"smoke", size(2, 64, 96, 8, 8, 32, 2, 0), {Mode::math, Mode::shapes}},
             {"losses", losses, {Mode::math, Mode::shapes}},
             {.name = "tiny_llama", .params = tiny_llama, .modes = {Mode::shapes}, .nightly = true},
             // Llama-70B on 8 ranks, the first of 4 pipeline stages.
             {"seed", size(20, 8192, 28672, 64, 8, 8192, 4, 1), {Mode::shapes}},
             // The same with weights and gradients in single precision, as that training had them.
             {"llama70b", llama70b, {Mode::shapes}},
             {"llama8b", size(32, 4096, 14336, 32, 8, 4096, 1, 1), {Mode::shapes}},
             // Llama-405B, the first of 16 pipeline stages, 16 microbatches in flight.
             {"scale",
              size(8, 16384, 53248, 128, 8, 8192, 16, 1),
              {Mode::shapes},
              true,
              [](int ranks) {  // a head of keys and values a rank
                return size(8, 16384, 53248, 128, std::max(8, ranks), 8192, 16, 1);
              }}};
  variants().put_into(s, program);
  s.unfit = unfit;
  s.leave_out = [](const Trial& trial, const Variant& variant) -> std::string {
    return trial.ranks == 1 && variant.role == Role::control ? "one rank gathers nothing" : "";
  };
  s.forms = forms;
  s.replay = replay;
  s.statistic = Statistic::allocated;
  s.symbols = symbols();
  s.inspect = inspect;
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
