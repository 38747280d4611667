#include "harness/run/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace tidemark {
namespace {

struct Pattern {
  std::string scenario = "*", variant = "*", size;
};

Pattern parse(const std::string& text) {
  Pattern pattern;
  std::string* parts[] = {&pattern.scenario, &pattern.variant, &pattern.size};
  std::size_t begin = 0;
  for (int i = 0; begin <= text.size(); ++i) {
    if (i == 3)
      throw UsageError(fmt::format("pattern '{}' has more than scenario/variant/size", text));
    auto end = std::min(text.find('/', begin), text.size());
    *parts[i] = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return pattern;
}

bool is_glob(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }
bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

template <typename Items>
std::string names(const Items& items) {
  std::vector<std::string> all;
  for (const auto& item : items) all.push_back(item.name);
  return fmt::format("{}", fmt::join(all, ", "));
}

// A plain name that does not exist is a mistake; a glob that matches nothing only selects nothing.
template <typename Items>
void require_known(const std::string& what, const std::string& name, const Items& items,
                   const std::string& where = "") {
  if (is_glob(name)) return;
  if (std::ranges::none_of(items, [&](const auto& item) { return item.name == name; }))
    throw UsageError(
        fmt::format("unknown {} '{}'{} (there are: {})", what, name, where, names(items)));
}

std::int64_t parse_value(const Parameter& parameter, const std::string& text,
                         const std::string& setting) {
  const auto named = std::ranges::find(parameter.values, text);
  if (named != parameter.values.end())
    return parameter.low + std::distance(parameter.values.begin(), named);
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc() && end == text.data() + text.size();
  if (!parameter.values.empty() && (!number || value < parameter.low || value > parameter.high))
    throw UsageError(fmt::format("--set {}: {} is one of {}", setting, parameter.name,
                                 fmt::join(parameter.values, ", ")));
  if (!number) throw UsageError(fmt::format("--set {}: '{}' is not a whole number", setting, text));
  return value;
}

void apply(const std::vector<std::string>& settings, const Scenario& scenario, Params& params) {
  for (const auto& setting : settings) {
    auto equals = setting.find('=');
    if (equals == std::string::npos)
      throw UsageError(fmt::format("--set {}: expected KEY=VALUE", setting));
    const std::string key = setting.substr(0, equals);
    auto parameter = std::ranges::find(scenario.parameters, key, &Parameter::name);
    if (parameter == scenario.parameters.end())
      throw UsageError(fmt::format("--set {}: {} has no parameter '{}' (there are: {})", setting,
                                   scenario.name, key, names(scenario.parameters)));
    const auto value = parse_value(*parameter, setting.substr(equals + 1), setting);
    if (value < parameter->low || value > parameter->high)
      throw UsageError(fmt::format("--set {}: {} must be from {} to {}", setting, key,
                                   parameter->low, parameter->high));
    params[key] = value;
  }
}

struct Piece {  // of a suite
  std::string size;
  std::string mode;  // empty: the size's first
  int steps;
  std::vector<std::string> schedules = {};  // of the virtual device; empty: all
};

// Two steps at size scale: the first makes the optimizer's state. Baselines that leak add terabytes
// a step there, and the platform has addresses for 32.
int usual_steps(const std::string& size) { return size == "scale" ? 2 : 4; }

// Pieces of a suite, unless sizes are asked for: one by name, or those that the patterns name.
std::vector<Piece> pieces(const Request& request, const Scenario& scenario, bool by_pattern) {
  const auto steps = [&](int usual) { return request.steps ? request.steps : usual; };
  if (!request.size.empty())
    return {{request.size, request.mode, steps(usual_steps(request.size))}};
  if (by_pattern) {
    std::vector<Piece> all;
    for (const auto& size : scenario.sizes)
      all.push_back({size.name, request.mode, steps(usual_steps(size.name))});
    return all;
  }
  // The small size for the numbers, the seed document's own for memory that a person can see: in a
  // minute the steps that differ (the first, the last), where the host runs ahead the furthest.
  // Three steps of numbers: what only a second update shows is in the third loss.
  const auto has = [&](const char* size) {
    return std::ranges::find(scenario.sizes, size, &Size::name) != scenario.sizes.end();
  };
  // Puts the sizes that ask for it before the last piece.
  const auto add = [&](std::vector<Piece>& all, bool Size::*asks, int usual) {
    for (const Size& size : scenario.sizes)
      if (size.*asks)
        all.insert(all.end() - 1, {size.name, request.mode, steps(usual), {"instant"}});
  };
  const auto seed = std::ranges::find(scenario.sizes, "seed", &Size::name);
  const int of_seed = seed == scenario.sizes.end() ? Size().steps : seed->steps;
  if (request.suite == "smoke") {
    std::vector<Piece> all{{"smoke", request.mode, steps(3)},
                           {"seed", request.mode, steps(of_seed), {"lagging"}}};
    add(all, &Size::smoke, 2);
    return all;
  }
  // Loss curves under one schedule: the others are held to its bits over a few steps of the small
  // size. Where a step of that is many operators, the scenario has a size for the curves. Of the
  // seeds' sizes the schedule with a clock and the one with the highest peaks.
  if (request.suite == "nightly") {
    std::vector<Piece> all{
        {has("losses") ? "losses" : "smoke", request.mode, steps(100), {"instant"}},
        {"smoke", request.mode, steps(4)},
        {"seed", request.mode, steps(of_seed), {"calibrated", "lagging"}}};
    add(all, &Size::nightly, 3);
    add(all, &Size::smoke, 2);
    return all;
  }
  if (request.suite == "scale") return {{"scale", request.mode, steps(usual_steps("scale"))}};
  throw UsageError(
      fmt::format("unknown suite '{}' (there are: smoke, nightly, scale)", request.suite));
}

bool runs_in(const Size& size, const std::string& mode) {
  return mode.empty() || (mode != "math" && mode != "shapes") ||
         std::ranges::any_of(size.modes, [&](Mode each) { return name_of(each) == mode; });
}

Mode mode_of(const Piece& piece, const Scenario& scenario, const Size& size) {
  if (piece.mode.empty()) return size.modes.front();
  if (piece.mode != "math" && piece.mode != "shapes")
    throw UsageError(fmt::format("unknown mode '{}' (there are: math, shapes)", piece.mode));
  const Mode mode = piece.mode == "math" ? Mode::math : Mode::shapes;
  if (std::ranges::find(size.modes, mode) == size.modes.end())
    throw UsageError(
        fmt::format("size '{}' of {} does not run in mode {}: it is too large for numbers",
                    size.name, scenario.name, piece.mode));
  return mode;
}

/// True if a suite wants it, where no schedule was asked for: what it names, if that is offered.
bool runs_under(const Piece& piece, const std::string& schedule,
                const std::vector<std::string>& offered) {
  const auto among = [](const auto& all) {
    return [&all](const std::string& one) { return std::ranges::find(all, one) != all.end(); };
  };
  return std::ranges::none_of(piece.schedules, among(offered)) || among(piece.schedules)(schedule);
}

std::vector<std::string> chosen_schedules(const std::string& asked,
                                          const std::vector<std::string>& offered) {
  if (asked == "all" || asked.empty()) return offered;
  // The virtual device's fourth: of as many kinds as there are seeds, so no part of all.
  const bool is_virtual = std::ranges::find(offered, "calibrated") != offered.end();
  if (asked == "random" && is_virtual) return {"random"};
  if (std::ranges::find(offered, asked) == offered.end())
    throw UsageError(fmt::format("unknown schedule '{}' (there are: {}, {}all)", asked,
                                 fmt::join(offered, ", "), is_virtual ? "random, " : ""));
  return {asked};
}

// The variants of a scenario that the patterns name, with the baselines that they are compared
// with.
std::vector<std::string> chosen_variants(const Scenario& scenario,
                                         const std::vector<Pattern>& patterns,
                                         const std::string& size) {
  std::set<std::string> chosen;
  for (const auto& variant : scenario.variants)
    for (const auto& pattern : patterns)
      if (matches(pattern.scenario, scenario.name) && matches(pattern.variant, variant.name) &&
          (pattern.size.empty() || matches(pattern.size, size)))
        chosen.insert(variant.name);
  if (chosen.empty()) return {};
  auto baseline = std::ranges::find(scenario.variants, Role::baseline, &Variant::role);
  if (baseline != scenario.variants.end()) chosen.insert(baseline->name);
  std::vector<std::string> ordered;
  for (const auto& variant : scenario.variants)
    if (chosen.contains(variant.name)) ordered.push_back(variant.name);
  return ordered;
}

void check_patterns(const std::vector<Pattern>& patterns, const std::vector<Scenario>& scenarios) {
  for (const auto& pattern : patterns) {
    require_known("scenario", pattern.scenario, scenarios);
    for (const auto& scenario : scenarios) {
      if (scenario.name != pattern.scenario) continue;
      require_known("variant", pattern.variant, scenario.variants, " of " + scenario.name);
      if (!pattern.size.empty())
        require_known("size", pattern.size, scenario.sizes, " of " + scenario.name);
    }
  }
}

}  // namespace

std::vector<PlannedTrial> plan(const Request& request, const std::vector<Scenario>& scenarios,
                               const std::vector<std::string>& schedules) {
  if (scenarios.empty()) throw std::logic_error("no scenario is registered: this build is broken");
  if (request.ranks < 1 || request.ranks > 1024)
    throw UsageError(fmt::format("--ranks {}: must be from 1 to 1024", request.ranks));
  if (request.steps != 0 && (request.steps < 2 || request.steps > kMostTrialSteps))
    throw UsageError(
        fmt::format("--steps {}: must be from 2 (the first step makes the optimizer's state, the "
                    "last one is judged) to {}",
                    request.steps, kMostTrialSteps));
  std::vector<Pattern> patterns;
  for (const auto& text : request.patterns) patterns.push_back(parse(text));
  if (patterns.empty()) patterns.emplace_back();
  check_patterns(patterns, scenarios);

  std::vector<PlannedTrial> planned;
  auto add = [&](const Scenario& scenario, const Piece& piece, const Size& size) {
    const auto variants = chosen_variants(scenario, patterns, size.name);
    if (variants.empty()) return;
    Trial trial{scenario.name,
                size.name,
                "",
                size.params_on(request.ranks),
                mode_of(piece, scenario, size),
                request.ranks,
                piece.steps,
                request.seed};
    apply(request.set, scenario, trial.params);
    const std::string why_not = why_unfit(scenario, trial);
    for (const auto& schedule : chosen_schedules(request.schedule, schedules)) {
      if (request.schedule.empty() && !runs_under(piece, schedule, schedules)) continue;
      trial.schedule = schedule;
      const auto twin = [&](const PlannedTrial& other) {  // of an earlier piece, with more steps
        return other.trial.scenario == trial.scenario && other.trial.size == trial.size &&
               other.trial.mode == trial.mode && other.trial.schedule == schedule;
      };
      if (std::ranges::any_of(planned, twin)) continue;
      planned.push_back({&scenario, trial, variants, size.slow, why_not});
    }
  };
  const bool by_pattern =
      std::ranges::any_of(patterns, [](const Pattern& p) { return !p.size.empty(); });
  const bool by_suite = request.size.empty() && !by_pattern;
  for (const auto& scenario : scenarios) {
    if (std::ranges::none_of(patterns,
                             [&](const Pattern& p) { return matches(p.scenario, scenario.name); }))
      continue;
    for (const auto& piece : pieces(request, scenario, by_pattern)) {
      const auto size = std::ranges::find(scenario.sizes, piece.size, &Size::name);
      if (size == scenario.sizes.end())
        require_known("size", piece.size, scenario.sizes, " of " + scenario.name);
      else if (!by_suite || runs_in(*size, piece.mode))  // of a suite, what the mode allows
        add(scenario, piece, *size);
    }
  }
  if (planned.empty())
    throw NothingSelected(fmt::format("nothing matches {} (scenarios: {})",
                                      fmt::join(request.patterns, " "), names(scenarios)));
  if (std::ranges::all_of(planned, [](const PlannedTrial& p) { return !p.unfit.empty(); }))
    throw UsageError(planned.front().trial.scenario + ": " + planned.front().unfit);
  return planned;
}

}  // namespace tidemark
