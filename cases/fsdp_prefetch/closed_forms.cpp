// The closed forms: what is alive at the highest moment of each phase, in units of
//   U  bytes of a block's gathered parameters      G  of its reduce-scatter's input      S  of its
//   sharded gradient
// above `rest`, what stays allocated between steps (parameters, optimizer state, input, output and
// loss, cuBLAS workspaces). `small` is the rest of the plan (reference/multi_mlp_plan.h) replayed
// in a model of the allocator: activations, norms, tables, rounding and unsplit remainders.
// Reserved follows no formula: it is the replay's figure.
#include "cases/fsdp_prefetch/closed_forms.h"

#include <algorithm>
#include <map>

#include "cases/device_facts.h"

namespace tidemark::fsdp_prefetch {
namespace {

// At the last block whose successor's buffer is already there; with one block there is no
// successor.
std::string forward_form(const Layout& layout, std::int64_t layers, bool reshards, bool pile_up) {
  const std::string whole = reshards ? "U" : "L*U";
  switch (layout.gather) {
    case GatherLayout::separate_streams:  // the buffer before is kept through the copy-out
      return whole + (layers > 1 ? " + 2*U" : " + U");
    case GatherLayout::two_buffers:  // they rest
      return whole;
    default:
      if (!pile_up) return whole + " + U";
      // Every buffer since the first step: one a block in forward and, where they are gathered
      // again, in backward.
      return whole + (reshards ? " + (2*k + 1)*L*U" : " + (k + 1)*L*U");
  }
}

// While block i computes its gradients: its parameters, their gradients (U), the reduce-scatter
// input of block i+1 (G), the sharded gradients of the blocks before (S each), and the buffer of
// block i-1, gathered ahead.
std::string backward_form(const Layout& layout, std::int64_t layers, bool reshards, bool pile_up) {
  if (pile_up) {
    if (!reshards) return "(L - 1)*U + U + G + S + (k + 1)*L*U";
    return "2*U + G + (L - 1)*S + 2*(k + 1)*L*U";
  }
  if (!reshards) return "(L - 1)*U + U + G + S";
  const bool ahead = layout.gather != GatherLayout::two_buffers;
  if (!ahead || layers == 2) return "2*U + G + (L - 1)*S";
  return "3*U + G + (L - 2)*S";
}

}  // namespace

Predicted replay(const Trial& trial, const Layout& layout, int rank, const DeviceFacts& device) {
  using enum reference::ShardedOptions::Buffer;
  const auto precision = trial["precision"];
  return predict({.layers = trial["layers"],
                  .hidden = trial["hidden"],
                  .rows = trial["batch"] / trial.ranks,
                  .ranks = trial.ranks,
                  .rank = rank,
                  .steps = trial.steps,
                  .instant = trial.schedule != "lagging",
                  .explicit_prefetch = layout.explicit_prefetch,
                  .sharding = {.buffer = layout.gather == GatherLayout::separate_streams ? copy_in
                                         : layout.gather == GatherLayout::two_buffers ? persistent
                                                                                      : compute,
                               .recorded = layout.records(),
                               .in_flight_limit = layout.in_flight_limit,
                               .reshard_after_forward = trial["reshard_after_forward"] != 0,
                               .stored = precision == 1 ? 2 : 4,
                               .gathered = precision == 0 ? 4 : 2,
                               .reduced = 4}},
                 device);
}

std::vector<Expectation> closed_forms(const Trial& trial, const Variant& variant, int rank,
                                      const DeviceFacts& device) {
  if (variant.role == Role::control) return {};
  const Layout layout = variants()[variant.name];
  const auto at = [&](const char* schedule) {
    Trial other = trial;
    other.schedule = schedule;
    return replay(other, layout, rank, device);
  };
  const auto layers = trial["layers"], hidden = trial["hidden"];
  const bool reshards = trial["reshard_after_forward"] != 0;
  const bool recorded = layout.records() && trial.ranks > 1;
  const bool timeless = !recorded || trial.schedule == "instant" || trial.schedule == "lagging";
  const auto predicted = timeless ? replay(trial, layout, rank, device) : at("instant");
  const auto latest = timeless ? predicted : at("lagging");
  const auto shard =
      2 * ((hidden + trial.ranks - 1) / trial.ranks) * hidden;  // elements of a block, padded
  const auto stored = trial["precision"] == 1 ? 2 : 4, gathered = trial["precision"] == 0 ? 4 : 2;
  const auto as_double = [](auto value) { return static_cast<double>(value); };
  std::map<std::string, double> units{{"U", as_double(shard * trial.ranks * gathered)},
                                      {"G", as_double(shard * trial.ranks * 4)},
                                      {"S", as_double(shard * stored)},
                                      {"L", as_double(layers)},
                                      {"k", as_double(trial.steps - 1)}};

  // The statistics that count blocks which are freed and still wait for the communication stream.
  const auto pile_up = [&](Statistic statistic) {
    return recorded && trial.schedule == "lagging" &&
           (statistic == Statistic::active || statistic == Statistic::requested);
  };

  std::vector<Expectation> all;
  const auto add = [&](Statistic statistic, const std::string& phase, const std::string& form) {
    const auto index = static_cast<std::size_t>(statistic);
    const auto figure = as_double(predicted.phases.at(phase)[index].peak);
    // With a clock, which waiting blocks are free again decides unsplit remainders, hence
    // allocated, too.
    if (as_double(latest.phases.at(phase)[index].peak) != figure) return;
    if (form.empty()) return all.push_back({statistic, phase, {"replay", {{"replay", figure}}}});
    // What piles up is no rest, though it stays: of it counts what is allocated.
    const auto rest = pile_up(statistic) ? Statistic::allocated : statistic;
    units["rest"] = as_double(predicted.rest[static_cast<std::size_t>(rest)]);
    all.push_back({statistic, phase, with_remainder("rest + " + form, units, figure, "small")});
  };

  for (const Statistic statistic : kStatistics) {
    // The rate limiter's host waits: what piles up then follows the queue of events.
    const bool piles = pile_up(statistic);
    const bool formless = statistic == Statistic::reserved || trial.ranks == 1 ||
                          trial.steps == 1 || (piles && layout.in_flight_limit > 0);
    if (!timeless && statistic != Statistic::allocated) continue;
    add(statistic, "forward", formless ? "" : forward_form(layout, layers, reshards, piles));
    add(statistic, "backward",
        formless || layers < 2 ? "" : backward_form(layout, layers, reshards, piles));
    // Adam's one temporary: as large as this rank's parameters, padding excluded.
    add(statistic, "optimizer", formless || piles ? "" : "2*L*S");
  }
  return all;
}

std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank) {
  return closed_forms(trial, variant, rank, current_device_facts());
}

}  // namespace tidemark::fsdp_prefetch
