#include "harness/cli/files.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "harness/cli/boundary.h"
#include "harness/print.h"
#include "harness/record/budget.h"
#include "reports/write.h"

namespace tidemark {

namespace fs = std::filesystem;

void Output::add(CLI::App* command, const std::vector<std::string>& formats) {
  command->add_option("--format", format, fmt::format("{}", fmt::join(formats, ", ")))
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  command->add_option("--out", out, "write to this file instead of the terminal");
  command->add_flag("--force", force, "let --out replace a file");
}

void Output::check() const {
  if (out.empty()) return;
  std::error_code ignored;
  if (fs::is_directory(out, ignored))
    throw std::runtime_error(fmt::format("--out {}: is a folder; give the name of a file", out));
  if (const auto status = fs::status(out, ignored);
      fs::exists(status) && !fs::is_regular_file(status))
    throw std::runtime_error(
        fmt::format("--out {}: is a device or a pipe, which no file is put in the place of; give "
                    "the name of a file",
                    out));
  if (!force && fs::exists(fs::symlink_status(out, ignored)))
    throw std::runtime_error(
        fmt::format("--out {}: exists already; give another name, or --force to replace it", out));
}

void Output::deliver(const std::string& text, const std::string& summary) const {
  deliver([&](const Put& put) { put(text); }, summary);
}

void Output::deliver(const TextMaker& text, const std::string& summary) const {
  if (out.empty()) {
    text([](std::string_view part) { print_text(stdout, part); });
  } else {
    check();
    const fs::path path = fs::absolute(out);
    write_files(path.parent_path(), {{.path = path.filename(), .text = text}});
    print(stdout, "{}\n{}\n", summary, out);
  }
  std::fflush(stdout);  // before what a caller has to say on stderr
}

int run_act(const Act& act) {
  const Budget budget;
  try {
    return act();
  } catch (...) {
    const Told what = told(std::current_exception(), 2);
    print_error(what.line);
    return what.code;
  }
}

void add_program_commands(CLI::App& app) {
  app.add_subcommand("exec",
                     "run a PyTorch program on the virtual platform (tidemark exec --help)");
  app.add_subcommand("fit", "find what fits a GPU, by exact runs (tidemark fit --help)");
  app.add_subcommand("advise",
                     "try what would make a program smaller, each change by a run (tidemark advise "
                     "--help)");
  app.add_subcommand("bisect",
                     "find the version of a package, or the commit, at which memory changes "
                     "(tidemark bisect --help)");
}

void add_file_commands(CLI::App& app, Act& act) {
  add_compare(app, act);
  add_explain(app, act);
  add_history(app, act);
  add_judge(app, act);
  add_open(app, act);
  add_report(app, act);
  add_snapshot(app, act);
  auto* gpu = app.add_subcommand("gpu", "keep what a run on a GPU recorded: recording");
  gpu->require_subcommand(1);
  add_recording(*gpu, act);
  add_completion(app, act);
}

}  // namespace tidemark
