#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/cli/commands.h"
#include "harness/judge/saving.h"
#include "harness/print.h"
#include "harness/record/json_writer.h"
#include "harness/scenario.h"

namespace tidemark {
namespace {

Trial example(const Scenario& scenario) {
  const Size& size = scenario.sizes.front();
  return {scenario.name, size.name, "lagging", size.params_on(4), size.modes.front(), 4, 4, 0};
}

/// The command that measures the two variants of a published figure at size seed.
std::string command_of(const Scenario& scenario, const Published& published) {
  std::string out = fmt::format("tidemark run {0}/{1} {0}/{2} --size seed --ranks 4", scenario.name,
                                published.figure.from, published.figure.to);
  const auto size = std::ranges::find(scenario.sizes, "seed", &Size::name);
  const Settings usual =
      size == scenario.sizes.end() ? Settings{} : settings_of(scenario, size->params);
  for (const auto& [name, value] : settings_of(scenario, published.params))
    if (const auto own = usual.find(name); own == usual.end() || own->second != value)
      out += fmt::format(" --set {}={}", name, setting_text(value));
  return out;
}

nlohmann::ordered_json as_json(const Scenario& scenario) {
  nlohmann::ordered_json json{
      {"name", scenario.name}, {"title", scenario.title}, {"story", scenario.story}};
  for (const auto& p : scenario.parameters) {
    nlohmann::ordered_json parameter{{"name", p.name}, {"what", p.what}};
    if (p.values.empty())
      parameter.update({{"low", p.low}, {"high", p.high}});
    else
      parameter["values"] = p.values;
    json["parameters"].push_back(parameter);
  }
  for (const auto& size : scenario.sizes) {
    std::vector<std::string> modes;
    for (Mode mode : size.modes) modes.push_back(name_of(mode));
    json["sizes"].push_back({{"name", size.name},
                             {"modes", modes},
                             {"params", json_of(settings_of(scenario, size.params))}});
  }
  for (const Source& each : scenario.seen)
    json["seen"].push_back(
        {{"name", each.name}, {"link", text_or_null(each.link)}, {"what", each.what}});
  for (const Published& each : scenario.published)
    json["published"].push_back({{"source", each.figure.source},
                                 {"value", each.figure.value},
                                 {"what", each.figure.what},
                                 {"here", command_of(scenario, each)}});
  const Trial trial = example(scenario);
  for (const auto& variant : scenario.variants) {
    nlohmann::ordered_json entry{
        {"name", variant.name}, {"role", name_of(variant.role)}, {"what", variant.what}};
    if (!variant.caught_by.empty()) entry["caught_by"] = variant.caught_by;
    for (const auto& e : sums_of(scenario, trial, variant, 0))
      entry["formulas"].push_back({{"name", verdict_name(e)}, {"formula", e.formula.text}});
    json["variants"].push_back(entry);
  }
  for (const auto& symbol : symbols_of(scenario, trial, 0))
    json["symbols"].push_back({{"name", symbol.name}, {"what", symbol.what}});
  return json;
}

// The table of docs/scenarios.md, which a test holds against this.
void print_markdown(const std::vector<const Scenario*>& chosen) {
  print(stdout,
        "| scenario | what is wasted | baseline | fixed | controls, and what must catch them "
        "|\n|---|---|---|---|---|\n");
  for (const Scenario* scenario : chosen) {
    std::map<Role, std::string> names;
    for (const auto& variant : scenario->variants) {
      std::string& text = names[variant.role];
      text += fmt::format("{}`{}`", text.empty() ? "" : ", ", variant.name);
      if (variant.role == Role::control) text += fmt::format(" ({})", variant.caught_by);
    }
    print(stdout, "| `{}` | {} | {} | {} | {} |\n", scenario->name, scenario->title,
          names[Role::baseline], names[Role::fixed], names[Role::control]);
  }
}

/// The forms or the accounts of requested bytes: of the first rank that has some.
void print_sums(const Scenario& scenario, const Trial& trial, Basis basis) {
  std::string lines;
  int rank = 0;
  for (; rank < trial.ranks && lines.empty(); ++rank)
    for (const auto& variant : scenario.variants) {
      if (variant.role == Role::control) continue;
      for (const auto& e : sums_of(scenario, trial, variant, rank))
        if (e.basis == basis && e.statistic == Statistic::requested && e.moment.empty())
          lines += fmt::format("    {:<20} {:<14} {}\n", variant.name,
                               e.phase + (e.at_end ? "/end" : ""), e.formula.text);
    }
  if (lines.empty()) return;
  const bool forms = basis == Basis::form;
  print(stdout,
        "\n  {} (requested bytes at the highest moment of the last step{}: size {}, {} ranks, rank "
        "{}, schedule lagging)\n{}",
        forms ? "forms" : "accounts", forms ? "" : ", read off the replay", trial.size, trial.ranks,
        rank - 1, lines);
  if (forms && !scenario.formed.empty()) print(stdout, "    hold {}\n", scenario.formed);
}

void print_scenario(const Scenario& scenario) {
  print(stdout, "{} - {}\n  {}\n\n  seen in\n", scenario.name, scenario.title, scenario.story);
  for (const Source& each : scenario.seen)
    print(stdout, "    {:<20} {}{}\n", each.name, each.what,
          each.link.empty() ? "" : "\n      " + each.link);
  if (!scenario.published.empty())
    print(stdout, "\n  published, and the command that measures it here\n");
  for (const Published& each : scenario.published)
    print(stdout, "    {:<20} {}: {}\n      {}\n", each.figure.value, each.figure.source,
          each.figure.what, command_of(scenario, each));
  print(stdout, "\n  variants\n");
  for (const auto& variant : scenario.variants)
    print(
        stdout, "    {:<20} {:<9} {}{}\n", variant.name, name_of(variant.role), variant.what,
        variant.caught_by.empty() ? "" : fmt::format(" [must be caught by {}]", variant.caught_by));
  print(stdout, "\n  parameters\n");
  for (const auto& p : scenario.parameters)
    print(stdout, "    {:<20} {}  {}\n", p.name,
          p.values.empty() ? fmt::format("{}..{}", p.low, p.high)
                           : fmt::format("{}", fmt::join(p.values, ", ")),
          p.what);
  print(stdout, "\n  sizes\n");
  for (const auto& size : scenario.sizes) {
    std::string text;
    for (Mode mode : size.modes)
      text += fmt::format("{}{}", text.empty() ? "" : "|", name_of(mode));
    for (const auto& [name, value] : settings_of(scenario, size.params))
      text += fmt::format(" {}={}", name, setting_text(value));
    if (size.on_ranks) text += " (more with more ranks)";
    print(stdout, "    {:<20} {}\n", size.name, text);
  }
  const Trial trial = example(scenario);
  print_sums(scenario, trial, Basis::form);
  print_sums(scenario, trial, Basis::account);
  print(stdout, "\n  symbols\n");
  for (const auto& symbol : symbols_of(scenario, trial, 0))
    print(stdout, "    {:<12} {}{}\n", symbol.name, symbol.what,
          symbol.value ? fmt::format(" (here {:.0f})", *symbol.value) : "");
  print(stdout, "\n");
}

/// The scenarios that one of the names or globs matches; without names all scenarios.
std::vector<const Scenario*> named(const std::vector<std::string>& names) {
  std::vector<const Scenario*> out;
  std::string all;
  for (const auto& scenario : scenarios()) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", scenario.name);
    if (names.empty() || std::ranges::any_of(names, [&](const std::string& name) {
          return fnmatch(name.c_str(), scenario.name.c_str(), 0) == 0;
        }))
      out.push_back(&scenario);
  }
  for (const std::string& name : names)
    if (std::ranges::none_of(out, [&](const Scenario* scenario) {
          return fnmatch(name.c_str(), scenario->name.c_str(), 0) == 0;
        }))
      throw NothingSelected(fmt::format("no scenario is called {} (there are: {})", name, all));
  return out;
}

}  // namespace

int list_command(const Options& options) {
  if (scenarios().empty())
    throw std::logic_error("no scenario is registered: this build is broken");
  const auto chosen = named(options.names);
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Scenario* scenario : chosen) json.push_back(as_json(*scenario));
    print(stdout, "{}\n", json.dump(2));
    return 0;
  }
  if (options.markdown) {
    print_markdown(chosen);
    return 0;
  }
  for (const Scenario* scenario : chosen) print_scenario(*scenario);
  return 0;
}

}  // namespace tidemark
