// tidemark, the command. What needs no PyTorch runs in this process, which starts within
// milliseconds: exec, fit, and the commands on files. Everything else is the program
// tidemark_scenarios beside it, which this process becomes.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/bisect/bisect.h"
#include "harness/cli/boundary.h"
#include "harness/cli/files.h"
#include "harness/cli/suggest.h"
#include "harness/cli/variables.h"
#include "harness/errors.h"
#include "harness/exec/cause.h"
#include "harness/exec/exec.h"
#include "harness/fit/advise.h"
#include "harness/fit/fit.h"
#include "harness/help.h"
#include "harness/print.h"
#include "harness/ranks/leave.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

CLI::App* named(CLI::App& app, const char* name) {
  for (CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    if (name != nullptr && each->get_name() == name) return each;
  return nullptr;
}

// True for a command on files. `gpu` and `snapshot` need a subcommand that is one.
bool on_files(CLI::App& app, char** argv) {
  CLI::App* command = named(app, argv[1]);
  if (command == nullptr || command->get_require_subcommand_min() == 0) return command != nullptr;
  return named(*command, argv[2]) != nullptr;
}

bool wants_cuda() {
  const char* device = std::getenv("TIDEMARK_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda";
}

// PyTorch reads the settings of its allocator while it is loaded, and a mistake in them would end
// the process without a message. The commands that run scenarios therefore get them as
// --alloc-conf.
void move_allocator_settings() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0)
      setenv("TIDEMARK_ALLOC_CONF", value, /*overwrite=*/0);
    unsetenv(name);
  }
}

/// "help", "help COMMAND", "version" and "-V" are --help, COMMAND --help and --version. Help of a
/// command that is not there is a mistake, as the command is.
std::vector<char*> as_flags(int argc, char** argv) {
  static char help[] = "--help", version[] = "--version";
  std::vector<char*> words(argv, argv + argc);
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "help" && argc > 2) {
    std::swap(words[1], words[2]);
    words[2] = help;
  } else if (first == "help") {
    words[1] = help;
  } else if (first == "version" || first == "-V") {
    words[1] = version;
  }
  Act none;
  CLI::App app;
  add_file_commands(app, none);
  const std::string_view command = argc > 1 ? words[1] : "-";
  const auto known = {"exec", "fit", "advise", "bisect", "run", "list", "bench"};
  if (!command.starts_with('-') && named(app, words[1]) == nullptr &&
      std::ranges::find(known, command) == known.end())
    words.resize(2);
  words.push_back(nullptr);
  return words;
}

int run_main(int given, char** words) {
  std::vector<char*> all = as_flags(given, words);
  char** argv = all.data();
  const int argc = static_cast<int>(all.size()) - 1;
  check_variables();
  RunRecord version;
  version.tidemark = TIDEMARK_VERSION, version.git = TIDEMARK_GIT;
  if (argc > 1 && std::string_view(argv[1]) == "exec" && !wants_cuda())
    return exec_program(argc, argv, version);
  if (argc > 1 && std::string_view(argv[1]) == "fit") return fit_program(argc, argv, version);
  if (argc > 1 && std::string_view(argv[1]) == "advise") return advise_program(argc, argv, version);
  if (argc > 1 && std::string_view(argv[1]) == "bisect") return bisect_program(argc, argv, version);
  Act act;
  CLI::App app("tidemark measures the peak GPU memory of parallel training steps; no GPU is needed",
               "tidemark");
  app.formatter(std::make_shared<Help>());
  add_file_commands(app, act);
  const fs::path scenarios =
      fs::read_symlink("/proc/self/exe").parent_path() / "tidemark_scenarios";
  const char* reason = std::getenv("TIDEMARK_NO_SCENARIOS");  // by the wheel's command
  const std::string refused = reason != nullptr ? reason : "";
  if ((argc == 1 || !on_files(app, argv)) && refused.empty() && fs::exists(scenarios)) {
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (command == "run" || command == "bench" || command == "list") move_allocator_settings();
    // Throws where it is gone: MKL would end the process by a line of its own.
    static_cast<void>(fs::current_path());
    execv(scenarios.c_str(), argv);
    throw std::runtime_error(scenarios.string() + " cannot be started: " + std::strerror(errno));
  }
  for (const std::string_view absent : {"run", "list", "bench"})
    if (argc > 1 && argv[1] == absent)
      throw Unavailable(
          std::string(absent) + ": " +
              (refused.empty()
                   ? "this installation has no scenarios; build tidemark from its source"
                   : refused),
          3);
  app.require_subcommand(1);
  app.set_version_flag("--version", "tidemark " TIDEMARK_VERSION " (" TIDEMARK_GIT ")");
  add_program_commands(app);
  app.footer("The scenarios (run, list, bench) are not there: " +
             (refused.empty() ? "they are built from source." : refused));
  const int code = parse_line(app, argc, argv);
  return code >= 0 ? code : run_act(act);
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  tidemark::settle_process();
  tidemark::tell_at_terminate();
  int code = 0;
  try {
    code = tidemark::run_main(argc, argv);
  } catch (...) {
    const tidemark::Told what = tidemark::told(std::current_exception(), 3);
    tidemark::print_error(what.line);
    tidemark::leave_cause({what.code, "", what.line});
    code = what.code;
  }
  return tidemark::with_output(code);
}
