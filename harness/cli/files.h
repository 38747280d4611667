// Commands that read files and need neither a device nor ranks: compare, explain, history, judge,
// open, report, snapshot and gpu recording.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/record/growing_text.h"
#include "harness/record/record.h"

namespace tidemark {

/// The action of the parsed command; returns the exit code, throws std::runtime_error in one line
/// for bad input.
using Act = std::function<int()>;

/// Runs it: bad input is one line on stderr and exit code 2.
int run_act(const Act& act);

/// Adds every such command; parsing one sets `act`.
void add_file_commands(CLI::App& app, Act& act);
/// Names and one line each of the commands that run programs (exec, fit, advise, bisect), which
/// read their own flags.
void add_program_commands(CLI::App& app);

void add_compare(CLI::App& app, Act& act);
void add_completion(CLI::App& app, Act& act);
void add_explain(CLI::App& app, Act& act);
void add_history(CLI::App& app, Act& act);
void add_judge(CLI::App& app, Act& act);
void add_open(CLI::App& app, Act& act);
void add_report(CLI::App& app, Act& act);
void add_snapshot(CLI::App& app, Act& act);
/// Below `compare`.
void add_losses(CLI::App& compare, Act& act);
/// Below `gpu`.
void add_recording(CLI::App& gpu, Act& act);
/// Below `snapshot`; the one of them that needs a device, the virtual one.
void add_snapshot_replay(CLI::App& app, Act& act);
/// Likewise, for explain.
void add_what_if(CLI::App& app, Act& act);

/// Adds a run to the history beside its folder. Never harms the run: what goes wrong is one line of
/// warning.
void remember(const std::filesystem::path& folder, const Report& report);

/// Target of a result: --format, --out, --force.
struct Output {
  std::string format = "text", out;
  bool force = false;
  void add(CLI::App* command, const std::vector<std::string>& formats);
  /// Throws where --out names something that is there (without --force): before the work is done.
  void check() const;
  /// Prints `text`, or writes it to the file and prints `summary` and the file's name.
  void deliver(const std::string& text, const std::string& summary) const;
  void deliver(const TextMaker& text, const std::string& summary) const;
};

}  // namespace tidemark
