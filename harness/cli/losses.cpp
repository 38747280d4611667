// tidemark compare losses A B
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "harness/cli/files.h"
#include "harness/print.h"
#include "harness/record/ranges_text.h"
#include "harness/record/units.h"
#include "reports/curves/parity.h"

namespace tidemark {
namespace {

struct ParityArguments {
  std::string a, b, format_a = "auto", format_b = "auto", select, select_a, select_b, mode,
                    precision = "auto";
  std::vector<std::string> runs;
  std::optional<double> rtol, atol, ulp;
  bool common = false;
  Output output;
};

double not_negative(const char* flag, const std::optional<double>& value) {
  if (value && !(*value >= 0 && std::isfinite(*value)))
    throw std::runtime_error(fmt::format("{} {}: must be finite and not negative", flag, *value));
  return value.value_or(0);
}

constexpr auto kModes = words(ParityMode());

/// The mode that is asked for, else the one that --ulp, --rtol or --atol implies.
ParityMode mode_of(const ParityArguments& arguments, bool tolerance) {
  if (!arguments.mode.empty())
    return static_cast<ParityMode>(std::ranges::find(kModes, arguments.mode) - kModes.begin());
  return arguments.ulp ? ParityMode::ulp : tolerance ? ParityMode::tolerance : ParityMode::noise;
}

ParityRule rule_of(const ParityArguments& arguments) {
  ParityRule rule;
  rule.rtol = not_negative("--rtol", arguments.rtol);
  rule.atol = not_negative("--atol", arguments.atol);
  rule.ulp = not_negative("--ulp", arguments.ulp);
  rule.precision = precision_of(arguments.precision);
  rule.common = arguments.common;
  const bool tolerance = arguments.rtol || arguments.atol;
  rule.mode = mode_of(arguments, tolerance);
  const bool by_ulp = rule.mode == ParityMode::ulp,
             by_tolerance = rule.mode == ParityMode::tolerance;
  if (by_tolerance && !tolerance)
    throw std::runtime_error("--mode tolerance needs --rtol or --atol");
  if (by_ulp && !arguments.ulp)
    throw std::runtime_error("--mode ulp needs --ulp, the largest difference");
  if ((!by_tolerance && tolerance) || (!by_ulp && arguments.ulp))
    throw std::runtime_error(fmt::format(
        "--mode {} takes no {}: --rtol and --atol need --mode tolerance, --ulp needs --mode ulp",
        name_of(rule.mode), !by_ulp && arguments.ulp ? "--ulp" : "--rtol or --atol"));
  if (rule.mode != ParityMode::noise && !arguments.runs.empty())
    throw std::runtime_error(fmt::format(
        "--noise needs --mode noise: --mode {} judges every step by itself", name_of(rule.mode)));
  return rule;
}

std::string names_of(const std::vector<const Curve*>& curves) {
  std::string out;
  for (std::size_t i = 0; i < curves.size() && i < 8; ++i)
    out += (i == 0 ? "" : ", ") + curves[i]->name;
  return curves.size() > 8 ? fmt::format("{} and {} more", out, curves.size() - 8) : out;
}

std::vector<const Curve*> chosen(const CurveFile& file, const char* flag, const std::string& glob) {
  auto out = select(file, glob);
  if (!out.empty()) return out;
  std::vector<const Curve*> all;
  for (const Curve& curve : file.curves) all.push_back(&curve);
  throw std::runtime_error(fmt::format("{} {}: no curve of {} has such a name (there are: {})",
                                       flag, glob, file.path, names_of(all)));
}

/// The glob of one side: its own, else that of both.
const std::string& glob_of(const ParityArguments& arguments, const std::string& own) {
  return own.empty() ? arguments.select : own;
}

/// Curves of A with those of B: one with one, whatever their names are, and several by their names.
std::vector<std::pair<const Curve*, const Curve*>> pairs(const CurveFile& a, const CurveFile& b,
                                                         const ParityArguments& arguments) {
  const auto flag = [](const std::string& own, const char* name) {
    return own.empty() ? "--select" : name;
  };
  const auto x = chosen(a, flag(arguments.select_a, "--select-a"),
                        glob_of(arguments, arguments.select_a)),
             y = chosen(b, flag(arguments.select_b, "--select-b"),
                        glob_of(arguments, arguments.select_b));
  if (x.size() == 1 && y.size() == 1) return {{x[0], y[0]}};
  std::vector<std::pair<const Curve*, const Curve*>> out;
  std::map<std::string_view, const Curve*> of_b;  // a file has no name twice
  for (const Curve* other : y) of_b[other->name] = other;
  for (const Curve* curve : x)
    if (const auto other = of_b.find(curve->name); other != of_b.end())
      out.emplace_back(curve, other->second);
  if (out.size() != x.size() || out.size() != y.size())
    throw std::runtime_error(fmt::format(
        "A has {} ({}) and B has {} ({}): choose with --select GLOB, --select-a, --select-b",
        plural(static_cast<std::int64_t>(x.size()), "curve"), names_of(x),
        plural(static_cast<std::int64_t>(y.size()), "curve"), names_of(y)));
  return out;
}

/// "'loss' has 50 steps twice (551-600): the last of each counts".
void note_order(const std::vector<const Curve*>& curves, std::vector<std::string>& notes) {
  for (const Curve* curve : curves) {
    if (!curve->twice.empty())
      notes.push_back(fmt::format("'{}' has {} more than once ({}): the last of each counts",
                                  curve->name,
                                  plural(static_cast<std::int64_t>(curve->twice.size()), "step"),
                                  ranges_text(curve->twice, kStepRanges)));
    else if (curve->falls)
      notes.push_back(fmt::format("'{}' has steps that fall: they are sorted", curve->name));
  }
}

/// The curve of A named `of.name` in the file of another run of A, or the only one there.
const Curve* curve_of(const CurveFile& file, const Curve& of, const ParityArguments& arguments) {
  const auto all = chosen(file, "--noise", glob_of(arguments, arguments.select_a));
  if (all.size() == 1) return all[0];
  const auto same = std::ranges::find(all, of.name, [](const Curve* one) { return one->name; });
  if (same == all.end())
    throw std::runtime_error(fmt::format("--noise {}: has no curve '{}' (there are: {})", file.path,
                                         of.name, names_of(all)));
  return *same;
}

int run_parity(const ParityArguments& arguments) {
  arguments.output.check();
  ParityReport report;
  report.rule = rule_of(arguments);
  const auto format = [](const std::string& name) { return name == "auto" ? "" : name; };
  const CurveFile a = read_curves(arguments.a, format(arguments.format_a)),
                  b = read_curves(arguments.b, format(arguments.format_b));
  std::vector<CurveFile> runs;
  for (const std::string& path : arguments.runs)
    runs.push_back(read_curves(path, format(arguments.format_a)));
  report.a = {arguments.a, a.format, a.notes};
  report.b = {arguments.b, b.format, b.notes};
  for (std::size_t i = 0; i < runs.size(); ++i)
    report.runs.push_back({arguments.runs[i], runs[i].format, runs[i].notes});
  for (const auto& [x, y] : pairs(a, b, arguments)) {
    std::vector<const Curve*> others;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      others.push_back(curve_of(runs[i], *x, arguments));
      note_order({others.back()}, report.runs[i].notes);
    }
    note_order({x}, report.a.notes);
    note_order({y}, report.b.notes);
    report.curves.push_back(parity(*x, *y, report.rule, arguments.output.format == "html", others));
  }
  const std::string& wanted = arguments.output.format;
  arguments.output.deliver((wanted == "json"       ? parity_json
                            : wanted == "html"     ? parity_html
                            : wanted == "markdown" ? parity_markdown
                                                   : parity_text)(report),
                           parity_summary(report));
  if (report.exit_code() == 4) print_error("nothing to compare: no step is in both curves");
  return report.exit_code();
}

}  // namespace

void add_losses(CLI::App& compare, Act& act) {
  auto* command = compare.add_subcommand(
      "losses",
      "compare two loss curves of any training, equal but for noise: tables, CSV, JSON, JSON "
      "lines, TensorBoard's events, W&B's export, Lightning's metrics.csv, trainer_state.json, "
      "Megatron's golden values, report.json, each also as .gz, folders of runs, and logs whose "
      "lines name a step and a loss");
  std::vector<std::string> formats = curve_formats();
  formats.emplace_back("auto");
  CLI::Validator of_formats = CLI::IsMember(formats);
  of_formats.description("");  // too long for the help: the option's text has them
  auto arguments = std::make_shared<ParityArguments>();
  command->add_option("a", arguments->a, "the curve that is right: a file, or the folder of a run")
      ->required();
  command->add_option("b", arguments->b, "the other curve")->required();
  command->add_option("--noise", arguments->runs,
                      "another run of A with another seed, may be repeated: their spread is the "
                      "noise; without it the noise is that of B - A from step to step");
  command
      ->add_option("--mode", arguments->mode,
                   "noise (default), or every step by itself: exact, tolerance or ulp")
      ->check(CLI::IsMember(std::vector<std::string>(kModes.begin(), kModes.end())));
  command->add_option("--rtol", arguments->rtol,
                      "relative part of the tolerance: |b - a| <= atol + rtol * |a|");
  command->add_option("--atol", arguments->atol, "absolute part of the tolerance, see --rtol");
  command->add_option("--ulp", arguments->ulp, "largest difference in representable numbers");
  command
      ->add_option("--precision", arguments->precision,
                   "the losses are rounded to this precision, and ULPs are counted in it: bf16, "
                   "fp16, fp32, fp64, or auto, the coarsest that holds all values")
      ->check(CLI::IsMember({"auto", "bf16", "fp16", "fp32", "fp64", "float32", "float64"}))
      ->capture_default_str();
  command->add_flag("--common", arguments->common, "compare only the steps that both curves have");
  command->add_option(
      "--select", arguments->select,
      "glob over the curves' names; in a report scenario/size/rRANKS/mode/schedule/variant");
  command->add_option("--select-a", arguments->select_a, "the same, for A alone");
  command->add_option("--select-b", arguments->select_b, "the same, for B alone");
  command
      ->add_option(
          "--format-a", arguments->format_a,
          fmt::format("format of A, if auto detects the wrong one: {}", fmt::join(formats, ", ")))
      ->check(of_formats);
  command->add_option("--format-b", arguments->format_b, "format of B: one of the same")
      ->check(of_formats);
  arguments->output.add(command, {"text", "markdown", "json", "html"});
  command->footer(
      "exit codes: 0 B is A but for noise (or by the rule), 1 it is not, or both have diverged, 2 "
      "usage or bad input, 4 no step in common");
  command->callback([arguments, &act] { act = [arguments] { return run_parity(*arguments); }; });
}

}  // namespace tidemark
