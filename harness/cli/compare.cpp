// tidemark compare BASE NEW
#include "reports/compare/compare.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/cli/files.h"
#include "harness/cli/github.h"
#include "harness/memory/analysis.h"
#include "harness/print.h"
#include "harness/record/file.h"
#include "harness/record/json.h"
#include "reports/compare/benchmarks.h"
#include "reports/compare/overlay.h"
#include "reports/compare/render.h"
#include "reports/compare/threshold.h"
#include "reports/events/compare_events.h"
#include "reports/events/compare_traces.h"
#include "reports/numbers/compare_numbers.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

struct CompareArguments {
  std::vector<std::string> reports, thresholds;
  bool allow_missing = false, events = false, numbers = false;
  std::optional<std::size_t> device;
  std::size_t top = 10;
  Output output;
};

/// --threshold takes several values and so may swallow the reports that follow it: what names a
/// file or has no '=' is one.
void sort_out(CompareArguments& arguments) {
  std::vector<std::string> thresholds;
  for (const std::string& word : arguments.thresholds) {
    std::error_code ignored;
    const bool report =
        word.find('=') == std::string::npos || std::filesystem::exists(word, ignored);
    (report ? arguments.reports : thresholds).push_back(word);
  }
  arguments.thresholds = thresholds;
  if (arguments.reports.size() != 2)
    throw std::runtime_error(
        fmt::format("compare needs two reports or run folders, BASE and NEW, not {}",
                    arguments.reports.size()));
}

/// Common part of --events and --numbers, which compare exactly. `compared` names what should
/// have been compared, for the case that nothing was.
template <class Compare>
int run_exact(const CompareArguments& arguments, const char* flag, const char* compared,
              const std::string& first, const std::string& second, Compare compare) {
  if (!arguments.thresholds.empty() || arguments.output.format != "text")
    throw std::runtime_error(fmt::format(
        "compare {} is exact and prints text: leave out --threshold and --format", flag));
  const auto comparison = compare(first, second);
  const std::string text = comparison.text(first, second);
  arguments.output.deliver(text, text.substr(text.rfind('\n', text.size() - 2) + 1));
  if (comparison.exit_code() == 4)
    print(stderr,
          "error: nothing to compare: no {} (same scenario, size, ranks, mode, schedule, "
          "variant, rank, parameters, steps and seed)\n",
          fmt::format(fmt::runtime(compared), first, second));
  return comparison.exit_code();
}

/// The first bytes of a file; empty for a folder.
std::string begin_of(const std::string& path) { return first_bytes(path, 4096); }

/// True for a file that is not a run's own events: a memory snapshot, or a recording of one.
bool is_trace_of_snapshot(const std::string& path) {
  return !std::filesystem::is_directory(path) &&
         begin_of(path).find("\"tidemark/measured\"") == std::string::npos;
}

/// True for a memory snapshot: a pickle, JSON, or a recording packed by gzip.
bool is_snapshot(const std::string& path) {
  const std::string begin = begin_of(path);
  return begin.starts_with('\x80') || begin.starts_with("mrecord") ||
         begin.starts_with("\x1f\x8b") ||
         begin.find("\"segments\"") < begin.find("\"tidemark/report\"") ||
         begin.find("\"tidemark/recording\"") != std::string::npos;
}

/// The file itself, or of a run's folder the one snapshot that it holds.
std::string snapshot_in(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return path;
  std::vector<std::string> snapshots;
  if (const auto folder = std::filesystem::path(path) / "snapshot";
      std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".record" || entry.path().extension() == ".pickle")
        snapshots.push_back(entry.path().string());
  if (snapshots.size() != 1)
    throw std::runtime_error(
        fmt::format("{}: has {} memory snapshots in snapshot/, and --events against a snapshot "
                    "needs one: name the file",
                    path, snapshots.size()));
  return snapshots[0];
}

int run_compare_events(const CompareArguments& arguments) {
  const std::string &first = arguments.reports[0], &second = arguments.reports[1];
  if (is_trace_of_snapshot(first) || is_trace_of_snapshot(second))
    return run_exact(arguments, "--events", "", snapshot_in(first), snapshot_in(second),
                     [&](const std::string& a, const std::string& b) {
                       return compare_traces(read_snapshot(a), a, read_snapshot(b), b,
                                             arguments.device);
                     });
  return run_exact(arguments, "--events", "trace is in both {} and {} and was held back", first,
                   second, [](const std::string& a, const std::string& b) {
                     return compare_events(read_events(a), read_events(b));
                   });
}

int run_compare_numbers(const CompareArguments& arguments) {
  return run_exact(arguments, "--numbers", "numbers are in both {} and {} and are bounded",
                   arguments.reports[0], arguments.reports[1],
                   [](const std::string& a, const std::string& b) {
                     return compare_numbers(read_numbers(a), read_numbers(b));
                   });
}

/// Prints the allocation sites that differ between two snapshots. The peak of active is the figure
/// that may not get worse.
int run_compare_snapshots(const CompareArguments& arguments, const Thresholds& thresholds) {
  const std::string &first = arguments.reports[0], &second = arguments.reports[1];
  for (const std::string* other : {&first, &second})
    if (!is_snapshot(*other))
      throw std::runtime_error(fmt::format(
          "{} is not a memory snapshot, and the other file is one: give two of a kind", *other));
  const std::string& format = arguments.output.format;
  if (format != "text" && format != "json")
    throw std::runtime_error(
        fmt::format("--format {}: two snapshots are compared as text or json", format));
  const Snapshot before = read_snapshot(first), after = read_snapshot(second);
  const Named a{first, before}, b{second, after};
  arguments.output.deliver(
      format == "json" ? difference_json(a, b) : difference_text(a, b, arguments.top),
      fmt::format("{} against {}", first, second));
  const std::int64_t was = peak_of_active(before), is = peak_of_active(after);
  return is > was && thresholds.beyond({.name = "memory/active/peak"}, static_cast<double>(was),
                                       static_cast<double>(is))
             ? 1
             : 0;
}

/// Prints or writes the comparison in the chosen format; its exit code.
int deliver(const Comparison& comparison, const Side& base, const Side& fresh,
            const Output& output) {
  const std::string& format = output.format;
  output.deliver((format == "json"       ? comparison_json
                  : format == "html"     ? comparison_html
                  : format == "markdown" ? comparison_markdown
                                         : comparison_text)(comparison, base, fresh),
                 comparison_summary(comparison));
  tell_github(comparison, comparison_markdown(comparison, base, fresh));
  return comparison.exit_code();
}

/// Of Google Benchmark: the rows of one name.
int run_compare_benchmarks(const CompareArguments& arguments, const CompareOptions& options) {
  const std::string &first = arguments.reports[0], &second = arguments.reports[1];
  for (const std::string* other : {&first, &second})
    if (!is_benchmarks(begin_of(*other)))
      throw std::runtime_error(fmt::format(
          "{} has no benchmarks of Google's library, and the other file has: give two of a kind",
          *other));
  const Benchmarks before = parse_benchmarks(read_bytes(first), first),
                   after = parse_benchmarks(read_bytes(second), second);
  const Report a{before.run, {}}, b{after.run, {}};
  const int code =
      deliver(compare(before, after, options), {first, a}, {second, b}, arguments.output);
  if (code == 4)
    print(stderr, "error: nothing to compare: no benchmark is in both {} and {}\n", first, second);
  return code;
}

/// Without its verdicts' formulas, which are not compared and take half of the record's memory.
Report read_figures(const std::string& path) {
  return read_report(path, [](TrialRecord& trial) {
    for (Verdict& verdict : trial.verdicts) verdict.formula = {}, verdict.values = {};
  });
}

int run_compare(CompareArguments arguments) {
  sort_out(arguments);
  arguments.output.check();
  if (arguments.events && arguments.numbers)
    throw std::runtime_error("--events and --numbers are two comparisons: give one of them");
  if (arguments.device && !arguments.events)
    throw std::runtime_error("--device chooses a trace of a snapshot: give --events with it");
  if (arguments.events) return run_compare_events(arguments);
  if (arguments.numbers) return run_compare_numbers(arguments);
  CompareOptions options;
  options.allow_missing = arguments.allow_missing;
  for (const std::string& text : arguments.thresholds)
    options.thresholds.push_back(parse_threshold(text));
  if (is_snapshot(arguments.reports[0]) || is_snapshot(arguments.reports[1]))
    return run_compare_snapshots(arguments, Thresholds(options.thresholds));
  if (is_benchmarks(begin_of(arguments.reports[0])) ||
      is_benchmarks(begin_of(arguments.reports[1])))
    return run_compare_benchmarks(arguments, options);
  const Report before = read_figures(arguments.reports[0]),
               after = read_figures(arguments.reports[1]);
  const Comparison comparison = compare(before, after, options);
  const auto side = [](const std::string& name, const Report& report) {
    return Side{name, report, records_beside(name)};
  };
  const Side base = side(arguments.reports[0], before), fresh = side(arguments.reports[1], after);
  const int code = deliver(comparison, base, fresh, arguments.output);
  if (code == 4)
    print(stderr,
          "error: nothing to compare: no trial ran in both {} and {} with a variant in common "
          "(same scenario, size, ranks, mode, schedule, steps, seed and parameters)\n",
          base.name, fresh.name);
  return code;
}

}  // namespace

void add_compare(CLI::App& app, Act& act) {
  auto* command = app.add_subcommand(
      "compare",
      "compare two reports, and name the figures that got worse by more than a threshold; or two "
      "files of Google Benchmark (tidemark bench, benchmark.json); or two memory snapshots of any "
      "program, by allocation site and size");
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option(
      "reports", arguments->reports,
      "BASE and NEW: report.json or the output folder of a run, JSON of Google Benchmark, or a "
      "PyTorch memory snapshot");
  command->add_option("--threshold", arguments->thresholds,
                      "how much worse a figure may be, as KIND=VALUE or GLOB=VALUE: memory=0 "
                      "time=5% 'memory/active/*=1MiB' (default: time=5%, all others 0)");
  command
      ->add_option("--top", arguments->top,
                   "of two snapshots: the number of sites that are printed")
      ->capture_default_str();
  command->add_flag(
      "--allow-missing", arguments->allow_missing,
      "do not count a trial, variant or metric that is missing in NEW as a regression");
  command->add_flag(
      "--events", arguments->events,
      "compare the allocators' events instead; all must be equal. Each side is a run with "
      "--events, a recording of reports/measured, or a PyTorch memory snapshot with a trace");
  command->add_option("--device", arguments->device,
                      "with --events: the device of a snapshot in which several have a trace");
  command->add_flag(
      "--numbers", arguments->numbers,
      "compare losses, gradients and parameters of runs with --numbers instead: bit for bit if the "
      "arithmetic is the same, else within the sum of the tolerances of both sides");
  arguments->output.add(command, {"text", "markdown", "json", "html"});
  command->footer(
      "exit codes: 0 no regression, 1 a regression (a missing figure is one), 2 usage or bad "
      "input, 4 nothing is left to compare");
  add_losses(*command, act);
  command->callback([arguments, command, &act] {
    if (command->get_subcommands().empty()) act = [arguments] { return run_compare(*arguments); };
  });
}

}  // namespace tidemark
