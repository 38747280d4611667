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

}  // namespace tidemark
