// The flat buffer that an asynchronous all-gather fills is allocated and freed on the compute
// stream but recorded on the communication stream, so the allocator keeps every one of them until
// it has seen that stream pass: with a host that runs ahead, buffers pile up from unit to unit and
// from step to step. Needless: the compute stream waits for every gather before the buffer is
// freed. Seen in PyTorch's FSDP2 with explicit prefetch and _set_unshard_async_op(True) (c10d
// before 2.8).
#include "harness/scenario.h"

#include <algorithm>

#include "cases/fsdp_prefetch/policy.h"
#include "cases/numbers.h"

namespace tidemark {
namespace fsdp_prefetch {

const VariantTable<Policy>& variants() {
  using enum GatherLayout;
  static const VariantTable<Policy> all{{
      {{"record_stream", Role::baseline,
        "gathered buffers are recorded on the communication stream, so the allocator keeps them "
        "until it has seen that "
        "stream pass"},
       {{.layout = asynchronous, .reference = Reference::record_stream}}},
      {{"separate_streams", Role::baseline,
        "implicit prefetch: buffers come from a copy-in stream; nothing over-allocated, but every "
        "stream keeps a pool of "
        "its own"},
       {.sharding = {.layout = separate_streams}, .explicit_prefetch = false}},
      {{"stash", Role::fixed,
        "the work handle keeps the buffers until wait() has made the compute stream wait for the "
        "gather"},
       {{.layout = asynchronous, .reference = Reference::stash}}},
      {{"per_collective", Role::fixed,
        "the communicator records, but the all-gathers ask not to be recorded"},
       {{.layout = asynchronous,
         .reference = Reference::record_stream,
         .gather_reference = Reference::stash}}},
      {{"current_stream_sync", Role::fixed,
        "buffers from the compute stream, gathered synchronously on a stream of their own; the "
        "copy-out waits for its event"},
       {{.layout = current_stream}}},
      {{"rate_limiter", Role::fixed,
        "buffers are recorded, but the host waits so that at most two gathers are in flight"},
       {{.layout = asynchronous, .reference = Reference::record_stream, .in_flight_limit = 2}}},
      {{"two_buffers", Role::fixed,
        "two persistent buffers used in turn; the stream waits, not the host"},
       {{.layout = two_buffers}}},
      {{"no_reference", Role::control, "the buffer is dropped right after the gather is launched",
        "race/"},
       {{.layout = asynchronous, .reference = Reference::none, .unit_keeps_buffer = false}}},
      {{"unstash_before_wait", Role::control,
        "the buffer is dropped in wait() before the compute stream waits for the gather", "race/"},
       {{.layout = asynchronous,
         .reference = Reference::unstash_before_wait,
         .unit_keeps_buffer = false}}},
  }};
  return all;
}

Policy policy_of(const Trial& trial, const std::string& variant) {
  Policy policy = variants()[variant];
  const auto precision = trial["precision"];
  policy.sharding.reshard_after_forward = trial["reshard_after_forward"] != 0;
  policy.sharding.stored = precision == 1 ? 2 : 4;
  policy.sharding.gathered = precision == 0 ? 4 : 2;
  return policy;
}

}  // namespace fsdp_prefetch

Scenario fsdp_prefetch_scenario() {
  using namespace fsdp_prefetch;
  Scenario s;
  s.name = "fsdp_prefetch";
  s.title = "explicit prefetch with asynchronous all-gathers";
  s.kept = "by the communication stream";
  s.seen = {
      issue("pytorch/pytorch", 147168,
            "FSDP2 with explicit prefetch and asynchronous all-gathers: record_stream in c10d "
            "keeps their buffers; three ways out"),
      pull_request("pytorch/pytorch", 148590,
                   "the way out that PyTorch took: a stash until the wait, no record_stream")};
  s.story =
      "Sharded data parallelism gathers a unit's parameters ahead of time into a flat buffer of "
      "the compute stream. Recording "
      "that buffer on the communication stream makes the allocator hold it (active, not allocated) "
      "for as long as the device "
      "lags behind the host, although the compute stream waits for the gather before the buffer is "
      "freed.";
  s.parameters = {
      {"layers", "blocks, one sharded unit each", 1, 512, true},
      {"hidden", "width of every layer", 1, 65536, true},
      {"batch", "rows over all ranks; a rank gets batch / ranks of them", 1, 128},
      choice("precision",
             "of parameters; bf16: gradients are reduced in fp32; mixed: fp32 shards, gathered as "
             "bf16, reduced in fp32",
             {"fp32", "bf16", "mixed"}),
      on_off("reshard_after_forward", "no: parameters stay gathered from forward to backward")};
  const auto size = [](std::int64_t layers, std::int64_t hidden, std::int64_t precision) {
    return Params{{"layers", layers},
                  {"hidden", hidden},
                  {"batch", 16},
                  {"precision", precision},
                  {"reshard_after_forward", 1}};
  };
  s.sizes = {{"smoke", size(3, 48, 0), {Mode::math, Mode::shapes}},
             // Four steps as the report's: what is held grows with every one.
             {.name = "seed", .params = size(4, 10240, 0), .modes = {Mode::shapes}, .steps = 4},
             // 80 blocks of 2 x 20,480^2 parameters: 67 billion.
             {"scale", size(80, 20480, 2), {Mode::shapes}, true, [=](int ranks) {
                Params params = size(80, 20480, 2);
                params["batch"] = std::max(16, ranks);  // a row a rank
                return params;
              }}};
  s.variants = variants().list();
  s.unfit = [](const Trial& trial) -> std::string {
    if (trial["batch"] < trial.ranks) {
      return "a batch of " + std::to_string(trial["batch"]) + " rows gives nothing to some of " +
             std::to_string(trial.ranks) + " ranks; set batch=" + std::to_string(trial.ranks) +
             " or more";
    }
    return why_too_narrow(trial);
  };
  s.leave_out = [](const Trial& trial, const Variant& variant) -> std::string {
    return variant.role == Role::control && trial.ranks == 1
               ? "one rank has no partner to gather from, so nothing can race with a gather"
               : "";
  };
  s.make = [](const Trial& trial, const Variant& variant, World& world) {
    return program(trial, policy_of(trial, variant.name), world);
  };
  s.forms = forms;
  s.replay = replay;
  s.statistic = Statistic::active;
  s.symbols = symbols();
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
