#include "harness/scenario.h"

#include <algorithm>
#include <iterator>

namespace tidemark {

const char* name_of(Basis basis) { return basis == Basis::form ? "form" : "replay"; }

std::vector<Expectation> forms_of(const Scenario& scenario, const Trial& trial,
                                  const Variant& variant, int rank) {
  return scenario.forms ? scenario.forms(trial, variant, rank) : std::vector<Expectation>{};
}

std::vector<Expectation> expectations(const Scenario& scenario, const Trial& trial,
                                      const Variant& variant, int rank) {
  auto all = forms_of(scenario, trial, variant, rank);
  if (scenario.replay)
    std::ranges::move(scenario.replay(trial, variant, rank), std::back_inserter(all));
  return all;
}

std::string why_unfit(const Scenario& scenario, const Trial& trial) {
  if (trial.ranks > kMostRanks)
    return "at most " + std::to_string(kMostRanks) + " ranks, not " + std::to_string(trial.ranks);
  return scenario.unfit ? scenario.unfit(trial) : "";
}

Settings settings_of(const Scenario& scenario, const Params& params) {
  Settings settings;
  for (const auto& [name, value] : params) {
    const auto parameter = std::ranges::find(scenario.parameters, name, &Parameter::name);
    if (parameter == scenario.parameters.end() || parameter->values.empty())
      settings[name] = value;
    else
      settings[name] = parameter->values.at(static_cast<std::size_t>(value - parameter->low));
  }
  return settings;
}

}  // namespace tidemark
