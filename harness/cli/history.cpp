// tidemark history, and the line that every run adds to it.
#include "reports/history/history.h"

#include <fmt/format.h>

#include <memory>

#include "harness/cli/boundary.h"
#include "harness/cli/files.h"
#include "harness/print.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

constexpr int kPatience = 5000;  // ms that a run waits for others to have written

struct HistoryArguments {
  std::string path = "tidemark-out", since, prune;
  std::vector<std::string> metrics;
  bool last_good = false, pruning = false;
  Output output;
};

int prune(const HistoryArguments& arguments) {
  const std::string& keep = arguments.prune.empty() ? arguments.since : arguments.prune;
  if (keep.empty())
    throw std::runtime_error(
        "--prune needs what to keep: --prune 100 (the latest), --prune 90d, --prune 2026-01-31, or "
        "--since with it");
  const int removed = prune_history(arguments.path, keep);
  print(stdout, "{} run{} removed from the history (their folders stay)\n", removed,
        removed == 1 ? "" : "s");
  return 0;
}

int run_history(const HistoryArguments& arguments) {
  if (arguments.pruning) return prune(arguments);
  if (arguments.last_good) {
    const auto folder = last_good(arguments.path);
    if (!folder.empty()) return print(stdout, "{}\n", folder.string()), 0;
    print(stderr, "error: {}: it records no run with exit code 0 whose report still exists\n",
          arguments.path);
    return 4;
  }
  arguments.output.check();
  const History history = read_history(arguments.path, {arguments.since, arguments.metrics});
  if (history.runs.empty() || (!arguments.metrics.empty() && history.trends.empty())) {
    print(stderr, "error: {}: {}\n", arguments.path,
          history.runs.empty() ? "no run in that time"
                               : "no metric matches; --format json lists them all");
    return 4;
  }
  const bool all = !arguments.metrics.empty();
  const std::string& format = arguments.output.format;
  arguments.output.deliver(format == "json"   ? history_json(history)
                           : format == "html" ? history_html(history, all)
                                              : history_text(history, all),
                           fmt::format("{} runs", history.runs.size()));
  return 0;
}

}  // namespace

void add_history(CLI::App& app, Act& act) {
  auto* command = app.add_subcommand(
      "history", "print the trend of every metric over the recorded runs, and where it stepped");
  auto arguments = std::make_shared<HistoryArguments>();
  command->add_option("path", arguments->path, "history.sqlite or the folder that holds it")
      ->capture_default_str();
  command->add_option("--since", arguments->since,
                      "only runs since then: 2026-01-31, 2026-01-31T12:00:00Z, 7d, 12h");
  command->add_option("--metric", arguments->metrics,
                      "glob over metrics (memory/active/*) or over 'trial variant metric'; "
                      "default: the metrics that stepped");
  auto* pruning =
      command
          ->add_option("--prune", arguments->prune,
                       "forget all runs but the latest N, or those before a date or an age (90d)")
          ->expected(0, 1);
  command->add_flag("--last-good", arguments->last_good,
                    "print the folder of the latest run that passed");
  arguments->output.add(command, {"text", "json", "html"});
  command->footer("exit codes: 0 printed, 2 usage or bad input, 4 no run or no metric matches");
  command->callback([arguments, pruning, &act] {
    arguments->pruning = pruning->count() > 0;
    act = [arguments] { return run_history(*arguments); };
  });
}

void remember(const std::filesystem::path& folder, const Report& report) {
  try {
    record_run(folder, report, kPatience);
  } catch (...) {
    print(stderr, "warning: this run is not in the history: {}\n",
          one_line(told(std::current_exception(), 3).line));
  }
}

}  // namespace tidemark
