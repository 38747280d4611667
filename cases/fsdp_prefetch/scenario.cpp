// The flat buffer that an asynchronous all-gather fills is allocated and freed on the compute
// stream but recorded on the communication stream, so the allocator keeps every one of them until
// it has seen that stream pass: with a host that runs ahead, buffers pile up from unit to unit and
// from step to step. Needless: the compute stream waits for every gather before the buffer is
// freed. Seen in PyTorch's FSDP2 with explicit prefetch and _set_unshard_async_op(True) (c10d
// before 2.8).
#include "harness/scenario.h"

#include <algorithm>

#include "cases/fsdp_prefetch/closed_forms.h"
#include "cases/fsdp_prefetch/forms.h"
#include "cases/fsdp_prefetch/program.h"
#include "cases/fsdp_prefetch/reference.h"
#include "harness/ranks/world.h"

namespace tidemark {

Scenario fsdp_prefetch_scenario() {
  using namespace fsdp_prefetch;
  Scenario s;
  s.name = "fsdp_prefetch";
  s.title = "explicit prefetch with asynchronous all-gathers";
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
      {.name = "precision",
       .what =
           "of parameters; bf16: gradients are reduced in fp32; mixed: fp32 shards, gathered as "
           "bf16, reduced in fp32",
       .low = 0,
       .high = 2,
       .values = {"fp32", "bf16", "mixed"}},
      {"reshard_after_forward", "no: parameters stay gathered from forward to backward", 0, 1,
       false, kSwitch}};
  const auto size = [](std::int64_t layers, std::int64_t hidden, std::int64_t precision) {
    return Params{{"layers", layers},
                  {"hidden", hidden},
                  {"batch", 16},
                  {"precision", precision},
                  {"reshard_after_forward", 1}};
  };
  s.sizes = {{"smoke", size(3, 48, 0), {Mode::math, Mode::shapes}},
             {"seed", size(4, 10240, 0), {Mode::shapes}},
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
    return "";
  };
  s.leave_out = [](const Trial& trial, const Variant& variant) -> std::string {
    return variant.role == Role::control && trial.ranks == 1
               ? "one rank has no partner to gather from, so nothing can race with a gather"
               : "";
  };
  s.make = [](const Trial& trial, const Variant& variant,
              World& world) -> std::unique_ptr<Program> {
    return std::make_unique<Training>(trial, variants()[variant.name], world);
  };
  s.forms = forms;
  s.replay = expect;
  s.statistic = Statistic::active;
  s.symbols = symbols();
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
