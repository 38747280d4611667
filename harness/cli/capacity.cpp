#include "harness/cli/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "harness/device/platform.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

constexpr Bytes kWide = Bytes{1} << 40;  // at least, of a GPU that is widened

struct Need {
  double reserved = 0;   // the highest closed form of it
  double known = 0;      // the highest of any statistic
  double piled = 0;      // what leaks has piled up after the last step
  bool complete = true;  // every variant on every rank has a form of what it reserves

  /// `times`: how often the variant may hold as much as its forms say.
  void add(const std::vector<Expectation>& forms, int times) {
    bool says = false;
    for (const auto& form : forms) {
      const double bytes = form.formula.evaluate() + static_cast<double>(form.slack);
      known = std::max(known, bytes);
      piled = std::max(piled, times * bytes);
      if (form.statistic != Statistic::reserved || !form.moment.empty()) continue;
      reserved = std::max(reserved, bytes);
      says = true;
    }
    complete = complete && says;
  }
  Bytes least() const { return static_cast<Bytes>(std::ceil(std::max(reserved, known))); }
  Bytes safe() const {
    return std::max(complete ? least() : 2 * least(), static_cast<Bytes>(std::ceil(piled)));
  }
};

// The replay's, which know reserved; forms alone where there is no replay (a control's claim).
std::vector<Expectation> known_of(const Scenario& scenario, const Trial& trial,
                                  const Variant& variant, int rank) {
  std::vector<Expectation> all;
  if (scenario.replay) all = scenario.replay(trial, variant, rank);
  return all.empty() ? forms_of(scenario, trial, variant, rank) : all;
}

/// The trial under the schedule that its need is planned for: "instant", or for all others
/// "lagging", which keeps memory the longest.
Trial as_planned(Trial trial) {
  if (trial.schedule != "instant") trial.schedule = "lagging";
  return trial;
}

Need need_of(const Scenario& scenario, const Trial& trial, int as_rank) {
  Need need;
  for (const Variant& variant : scenario.variants) {
    if (scenario.leave_out && !scenario.leave_out(trial, variant).empty()) continue;
    const int times = variant.caught_by.starts_with("rest/") ? trial.steps : 1;
    for (int rank = 0; rank < trial.ranks; ++rank)
      if (as_rank < 0 || rank == as_rank) need.add(known_of(scenario, trial, variant, rank), times);
  }
  return need;
}

}  // namespace

void choose_capacities(std::vector<PlannedTrial>& planned, int as_rank, bool fixed) {
  std::vector<std::pair<Trial, Need>> known;
  for (PlannedTrial& each : planned) {
    if (!each.unfit.empty()) continue;
    const Trial trial = as_planned(each.trial);
    auto found = std::ranges::find(known, trial, &std::pair<Trial, Need>::first);
    if (found == known.end())
      found = known.insert(found, {trial, need_of(*each.scenario, trial, as_rank)});
    const Need& need = found->second;
    if (need.least() > 0) each.needs = need.least();
    if (virtual_device() == nullptr) continue;
    each.capacity = platform().capacity();
    if (fixed || need.safe() <= each.capacity) continue;
    const auto twice = std::bit_ceil(static_cast<std::uint64_t>(need.safe())) * 2;
    each.capacity = std::max(kWide, static_cast<Bytes>(twice));
  }
}

std::string capacity_notes(const std::vector<PlannedTrial>& planned) {
  auto* device = virtual_device();
  if (device == nullptr) return "";
  const Bytes own = device->profile_capacity();
  std::string notes;
  std::set<std::string> named;
  for (const auto& each : planned) {
    if (!each.unfit.empty() || !each.needs || each.capacity == own) continue;
    const std::string name = each.trial.scenario + "/" + each.trial.size;
    if (*each.needs <= own || !named.insert(name).second) continue;
    notes += fmt::format("note: {} needs {}: does not fit {} ({}); runs with {}\n", name,
                         bytes_text(*each.needs), platform().profile(), bytes_text(own),
                         bytes_text(each.capacity));
  }
  return notes;
}

}  // namespace tidemark
