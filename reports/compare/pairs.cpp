#include "reports/compare/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>
#include <set>

#include "harness/record/made.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

/// Names alone where they tell the trials of both reports apart, else with the settings.
class Names {
 public:
  Names(const Report& base, const Report& fresh) {
    for (const Report* report : {&base, &fresh})
      for (const TrialRecord& trial : report->trials)
        settings_[trial.name()].insert(settings_of(trial));
  }
  std::string operator()(const TrialRecord& trial) const {
    const std::string name = trial.name();
    return settings_.at(name).size() == 1 ? name : fmt::format("{} ({})", name, settings_of(trial));
  }

 private:
  std::map<std::string, std::set<std::string>> settings_;
};

void differ(std::vector<std::string>& out, const char* what, const std::string& a,
            const std::string& b) {
  const auto shown = [](const std::string& text) {
    return text.empty() ? "(none)" : one_line(text);
  };
  if (a != b) out.push_back(fmt::format("{}: {} -> {}", what, shown(a), shown(b)));
}

}  // namespace

std::vector<const TrialRecord*> trials_of(const Report& report, bool programs) {
  std::vector<const TrialRecord*> out;
  for (const TrialRecord& trial : report.trials)
    if (trial.program.has_value() == programs) out.push_back(&trial);
  return out;
}

std::string settings_of(const TrialRecord& trial) {
  std::string out = fmt::format("steps={} seed={}", trial.steps, trial.seed);
  for (const auto& [name, value] : trial.params)
    out += fmt::format(" {}={}", name, setting_text(value));
  return out;
}

Pairs pair_trials(const Report& base, const Report& fresh) {
  const Names name(base, fresh);
  using Trial = const TrialRecord*;
  Pairs out;
  pair_items(
      trials_of(base, false), trials_of(fresh, false),
      [](Trial one) { return one->name() + "\n" + settings_of(*one); },
      [&](Trial a, Trial b) {
        out.trials.push_back({name(*a), a, b});
      },
      [&](Trial a) { out.missing.push_back(name(*a)); },
      [&](Trial b) { out.fresh.push_back(name(*b)); });
  return out;
}

std::vector<std::string> differences(const RunRecord& base, const RunRecord& fresh) {
  std::vector<std::string> out;
  differ(out, "arguments", fmt::format("{}", fmt::join(telling_arguments(base), " ")),
         fmt::format("{}", fmt::join(telling_arguments(fresh), " ")));
  std::map<std::string, std::array<std::string, 2>> variables;
  for (const auto& [name, value] : telling_variables(base)) variables[name][0] = value;
  for (const auto& [name, value] : telling_variables(fresh)) variables[name][1] = value;
  for (const auto& [name, values] : variables)
    differ(out, one_line(name).c_str(), values[0], values[1]);
  differ(out, "device", base.device_kind, fresh.device_kind);
  differ(out, "profile", base.profile, fresh.profile);
  const Bytes before = base.capacity_bytes, after = fresh.capacity_bytes;
  const bool near = bytes_text(before) == bytes_text(after);
  differ(out, "capacity", near ? exact(before) + " bytes" : bytes_text(before),
         near ? exact(after) + " bytes" : bytes_text(after));
  for (const auto& [what, of] : {std::pair{"tidemark", &RunRecord::tidemark},
                                 {"git", &RunRecord::git},
                                 {"torch", &RunRecord::torch},
                                 {"nccl", &RunRecord::nccl},
                                 {"mpi", &RunRecord::mpi}})
    differ(out, what, base.*of, fresh.*of);
  return out;
}

}  // namespace tidemark
