// tidemark_scenarios, the commands that need PyTorch: parses, chooses the device, hands over; the
// one place of this program where an exception becomes a line and a code.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "harness/cli/boundary.h"
#include "harness/cli/commands.h"
#include "harness/cli/files.h"
#include "harness/cli/jobs.h"
#include "harness/device/choice.h"
#include "harness/print.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/launcher.h"
#include "harness/ranks/leave.h"

namespace tidemark {
namespace {

// Runs `answer` and turns an exception into one line on stderr and an exit code. Errors that every
// rank would print are printed by local rank 0 alone.
int guarded(const std::function<int()>& answer) {
  try {
    return answer();
  } catch (...) {
    const Told what = told(std::current_exception(), 3);
    if (what.alike && local_rank() != 0)
      sleep(2);  // a launcher ends all ranks when one ends: local rank 0 prints first
    else
      print_error(std::string_view(what.line).substr(0, what.line.find('\n')));
    return what.code;
  }
}

// The wishes of the environment, for commands without these flags.
DeviceRequest device_request() {
  const auto variable = [](const char* name) {
    const char* word = std::getenv(name);
    return std::string(word != nullptr ? word : "auto");
  };
  return {variable("TIDEMARK_DEVICE"), variable("TIDEMARK_COLLECTIVES"), false};
}

// One process stands for a rank where no launcher has started them.
int bench(Options& options, char** argv) {
  const auto launcher = find_launcher();
  const bool ranks = launcher && launcher->mpi;
  if (!ranks && options.request.mode == "math")
    throw UsageError("bench --mode math needs all ranks: mpirun -n 4 tidemark bench --mode math");
  if (!ranks && !options.self && options.as_rank < 0) options.as_rank = 0;
  if (options.as_rank >= 0 && options.request.ranks == 0) options.request.ranks = 4;
  options.note = choose_device({options.device, options.collectives, options.as_rank >= 0}, argv);
  return bench_command(options);
}

int run(Options& options, int argc, char** argv) {
  options.note = choose_device({options.device, options.collectives, options.as_rank >= 0}, argv);
  take_job(options);
  if (launched_by_tidemark()) return rank_command(options, argc, argv);
  const auto launcher = find_launcher();
  if (!options.executor.empty()) {
    if (launcher && launcher->size > 1)
      throw UsageError(
          fmt::format("--executor under {}, which has started {} processes already: "
                      "start tidemark run once",
                      launcher->name, launcher->size));
    return run_command(options, argc, argv);
  }
  if (launcher && launcher->mpi) return rank_command(options, argc, argv);
  if (launcher && launcher->size > 1)
    throw Unavailable(
        fmt::format("run: {0} started {1} processes, which find each other by MPI alone: use "
                    "mpirun -n {1} or srun --mpi=pmix; tidemark run --ranks {1} starts them itself "
                    "on one machine",
                    launcher->name, launcher->size),
        3);
  return run_command(options, argc, argv);
}

// On NVIDIA's libraries: a program that is linked as this one.
int exec_on_cuda(int argc, char** argv) {
  if (argc < 3) throw UsageError("exec: no program is given: tidemark exec PROGRAM ARGUMENTS...");
  choose_device(device_request(), argv);
  execvp(argv[2], argv + 2);
  throw UsageError(std::string("exec: ") + argv[2] + " cannot be started: " + std::strerror(errno));
}

int run_main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "exec") return exec_on_cuda(argc, argv);
  int exit_code = -1;
  std::string note;
  if (argc == 2 && std::string_view(argv[1]) == "--version")  // says on what a run would run
    note = choose_device(device_request(), argv);
  Options options = parse_options(argc, argv, exit_code);
  print_text(stdout, note);
  if (exit_code >= 0) return exit_code;
  if (options.act) return run_act(options.act);
  if (options.command == "list") return list_command(options);
  return options.command == "bench" ? bench(options, argv) : run(options, argc, argv);
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  tidemark::settle_process();
  tidemark::tell_at_terminate();
  return tidemark::leave(tidemark::guarded([&] { return tidemark::run_main(argc, argv); }));
}
