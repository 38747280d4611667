// Data parallelism all-reduces gradients in flat buckets while backward still runs. With tensors
// of their own for the gradients, every gradient lives twice: there and in its bucket, which is
// allocated once and stays. Needless: a gradient can be a view of its bucket. Seen in PyTorch's
// DistributedDataParallel, where gradient_as_bucket_view is off by default.
#include "harness/scenario.h"

#include "cases/ddp_bucket_view/policy.h"
#include "cases/numbers.h"
#include "harness/judge/counts.h"

namespace tidemark {
namespace ddp_bucket_view {

const VariantTable<Policy>& variants() {
  using enum Gradients;
  static const VariantTable<Policy> all{{
      {{"separate", Role::baseline,
        "gradients are tensors of their own, copied into buckets, all-reduced and copied back; "
        "after "
        "the first step one bucket becomes many, in the order of its backward"},
       {separate, true}},
      {{"bucket_view", Role::fixed,
        "gradients are views of the buckets, zeroed in place; autograd adds to them"},
       {accumulated}},
      {{"rebuilt_view", Role::fixed,
        "gradients are set to None, and replaced by views as they are computed; buckets are made "
        "anew after the first step, too"},
       {copied, true}},
      {{"replaced_views", Role::control,
        "views that zeroing to None replaces: from the second step on stale buckets are reduced, "
        "and every rank trains on its own gradients",
        "parity/"},
       {unwatched}},
      {{"kept_by_handle", Role::control,
        "as rebuilt_view, but one event waits for all buckets, and handles that none waits for "
        "keep the first step's bucket alive",
        "memory/"},
       {copied, true, true}},
  }};
  return all;
}

namespace {

// Every bucket is reduced once a step, and the loss besides.
std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  const auto calls = record.counters.collectives.find("all_reduce");
  const bool rebuilds = variants()[variant.name].rebuilds;
  return {equal(
      "cost/all_reduce",
      {rebuilds ? "1 + (steps - 1)*buckets + steps" : "steps*buckets + steps",
       {{"steps", trial.steps}, {"buckets", static_cast<double>(bucket_bytes(trial).size())}}},
      calls == record.counters.collectives.end() ? 0 : static_cast<double>(calls->second),
      "calls")};
}

}  // namespace
}  // namespace ddp_bucket_view

Scenario ddp_bucket_view_scenario() {
  using namespace ddp_bucket_view;
  Scenario s;
  s.name = "ddp_bucket_view";
  s.title = "gradients kept beside the buckets that reduce them";
  s.kept = "beside the buckets, which have them too";
  s.seen = {pull_request("pytorch/pytorch", 44344,
                         "gradients of DistributedDataParallel as views of its buckets "
                         "(gradient_as_bucket_view)")};
  s.story =
      "Data parallelism copies every gradient into a flat bucket, all-reduces it there and copies "
      "it back, so that gradients take their memory twice. Views of the buckets take it once, as "
      "long as nothing replaces a view, and nothing keeps a bucket beyond its use.";
  s.parameters = {{"layers", "blocks of two matrices", 1, 512, true},
                  {"hidden", "width of every layer", 1, 65536, true},
                  {"rows", "rows of one rank's batch", 1, 128},
                  {"bucket_bytes", "bytes at which a bucket is full; the first is full at 1 MiB", 1,
                   std::int64_t{1} << 40}};
  const auto size = [](std::int64_t layers, std::int64_t hidden, std::int64_t rows,
                       std::int64_t bucket_bytes) {
    return Params{
        {"layers", layers}, {"hidden", hidden}, {"rows", rows}, {"bucket_bytes", bucket_bytes}};
  };
  constexpr std::int64_t kReleased = 25 << 20;  // PyTorch's default
  s.sizes = {{"smoke", size(3, 48, 4, 16384), {Mode::math, Mode::shapes}},
             // 1.6 billion parameters, as GPT-2 XL.
             {"seed", size(48, 4096, 64, kReleased), {Mode::shapes}},
             // 8.6 billion: the most that a GPU of 288 GB trains in fp32 without sharding.
             {"scale", size(64, 8192, 64, kReleased), {Mode::shapes}}};
  variants().put_into(s, program);
  s.unfit = why_too_narrow;
  s.leave_out = [](const Trial& trial, const Variant& variant) -> std::string {
    if (variant.role != Role::control) return "";
    if (trial.steps < 2) return "shows from the second step on (--steps 2)";
    return trial.ranks == 1 && variant.caught_by == "parity/"
               ? "one rank's own gradients are the average"
               : "";
  };
  s.forms = forms;
  s.replay = replay;
  s.statistic = Statistic::requested;
  s.symbols = symbols();
  s.inspect = inspect;
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
