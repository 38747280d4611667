// tidemark compare losses A B
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "harness/cli/files.h"
#include "harness/print.h"
#include "reports/curves/parity.h"

namespace tidemark {
namespace {

struct ParityArguments {
  std::string a, b, format_a = "auto", format_b = "auto", select, select_a, select_b, mode,
                    precision = "float64";
  std::optional<double> rtol, atol, ulp;
  bool common = false;
  Output output;
};

double not_negative(const char* flag, const std::optional<double>& value) {
  if (value && !(*value >= 0 && std::isfinite(*value)))
    throw std::runtime_error(fmt::format("{} {}: must be finite and not negative", flag, *value));
  return value.value_or(0);
}

ParityRule rule_of(const ParityArguments& arguments) {
  ParityRule rule;
  rule.rtol = not_negative("--rtol", arguments.rtol);
  rule.atol = not_negative("--atol", arguments.atol);
  rule.ulp = not_negative("--ulp", arguments.ulp);
  rule.single = arguments.precision == "float32";
  rule.common = arguments.common;
  const bool tolerance = arguments.rtol || arguments.atol;
  std::string mode = arguments.mode;
  if (mode.empty()) mode = arguments.ulp ? "ulp" : tolerance ? "tolerance" : "exact";
  if (mode == "tolerance" && !tolerance)
    throw std::runtime_error("--mode tolerance needs --rtol or --atol");
  if (mode == "ulp" && !arguments.ulp)
    throw std::runtime_error("--mode ulp needs --ulp, the largest difference");
  if ((mode != "tolerance" && tolerance) || (mode != "ulp" && arguments.ulp))
    throw std::runtime_error(fmt::format(
        "--mode {} takes no {}: --rtol and --atol need --mode tolerance, --ulp needs --mode ulp",
        mode, mode != "ulp" && arguments.ulp ? "--ulp" : "--rtol or --atol"));
  rule.mode = mode == "ulp"         ? ParityMode::ulp
              : mode == "tolerance" ? ParityMode::tolerance
                                    : ParityMode::exact;
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

/// One with one, whatever they are called; several with those of the same names.
std::vector<std::pair<const Curve*, const Curve*>> pairs(const CurveFile& a, const CurveFile& b,
                                                         const ParityArguments& arguments) {
  const auto glob = [&](const std::string& own) { return own.empty() ? arguments.select : own; };
  const auto flag = [](const std::string& own, const char* name) {
    return own.empty() ? "--select" : name;
  };
  const auto x = chosen(a, flag(arguments.select_a, "--select-a"), glob(arguments.select_a)),
             y = chosen(b, flag(arguments.select_b, "--select-b"), glob(arguments.select_b));
  if (x.size() == 1 && y.size() == 1) return {{x[0], y[0]}};
  std::vector<std::pair<const Curve*, const Curve*>> out;
  std::map<std::string_view, const Curve*> of_b;  // a file has no name twice
  for (const Curve* other : y) of_b[other->name] = other;
  for (const Curve* curve : x)
    if (const auto other = of_b.find(curve->name); other != of_b.end())
      out.emplace_back(curve, other->second);
  if (out.size() != x.size() || out.size() != y.size())
    throw std::runtime_error(fmt::format(
        "A has {} curves ({}) and B has {} ({}): choose with --select GLOB, --select-a, --select-b",
        x.size(), names_of(x), y.size(), names_of(y)));
  return out;
}

int run_parity(const ParityArguments& arguments) {
  arguments.output.check();
  ParityReport report;
  report.rule = rule_of(arguments);
  const auto format = [](const std::string& name) { return name == "auto" ? "" : name; };
  const CurveFile a = read_curves(arguments.a, format(arguments.format_a)),
                  b = read_curves(arguments.b, format(arguments.format_b));
  report.a = {arguments.a, a.format};
  report.b = {arguments.b, b.format};
  for (const auto& [x, y] : pairs(a, b, arguments))
    report.curves.push_back(parity(*x, *y, report.rule, arguments.output.format == "html"));
  const std::string& wanted = arguments.output.format;
  arguments.output.deliver((wanted == "json"       ? parity_json
                            : wanted == "html"     ? parity_html
                            : wanted == "markdown" ? parity_markdown
                                                   : parity_text)(report),
                           parity_summary(report));
  if (report.exit_code() == 4)
    print_error(std::string("nothing to compare: ") + (report.compared() == 0
                                                           ? "no step is in both curves"
                                                           : "every step is NaN in both curves"));
  return report.exit_code();
}

}  // namespace

void add_losses(CLI::App& compare, Act& act) {
  auto* command =
      compare.add_subcommand("losses",
                             "compare two loss curves of any training: 'step loss' lines, CSV, "
                             "JSON, JSON lines, TensorBoard's events, W&B's export, logs of "
                             "torchtitan and Megatron, Megatron's golden values, report.json");
  std::vector<std::string> formats = curve_formats();
  formats.emplace_back("auto");
  auto arguments = std::make_shared<ParityArguments>();
  command->add_option("a", arguments->a, "the curve that is right: a file, or the folder of a run")
      ->required();
  command->add_option("b", arguments->b, "the other curve")->required();
  command->add_option("--mode", arguments->mode, "exact (default), tolerance or ulp")
      ->check(CLI::IsMember({"exact", "tolerance", "ulp"}));
  command->add_option("--rtol", arguments->rtol,
                      "relative part of the tolerance: |b - a| <= atol + rtol * |a|");
  command->add_option("--atol", arguments->atol, "absolute part of the tolerance, see --rtol");
  command->add_option("--ulp", arguments->ulp, "largest difference in representable numbers");
  command
      ->add_option("--precision", arguments->precision,
                   "precision in which the losses are compared: float32 or float64")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->capture_default_str();
  command->add_flag("--common", arguments->common, "compare only the steps that both curves have");
  command->add_option(
      "--select", arguments->select,
      "glob over the curves' names; in a report scenario/size/rRANKS/mode/schedule/variant");
  command->add_option("--select-a", arguments->select_a, "the same, for A alone");
  command->add_option("--select-b", arguments->select_b, "the same, for B alone");
  command
      ->add_option("--format-a", arguments->format_a, "format of A, if auto detects the wrong one")
      ->check(CLI::IsMember(formats));
  command->add_option("--format-b", arguments->format_b, "format of B")
      ->check(CLI::IsMember(formats));
  arguments->output.add(command, {"text", "markdown", "json", "html"});
  command->footer(
      "exit codes: 0 the curves agree, 1 they differ, 2 usage or bad input, 4 no step in common");
  command->callback([arguments, &act] { act = [arguments] { return run_parity(*arguments); }; });
}

}  // namespace tidemark
