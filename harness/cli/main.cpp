// tidemark, the command: parses, chooses the device, hands over; the one place where an exception
// becomes a line and a code.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "harness/cli/commands.h"
#include "harness/cli/files.h"
#include "harness/device_choice.h"
#include "harness/launch.h"
#include "harness/leave.h"

namespace tidemark {
namespace {

int run_main(int argc, char** argv) {
  auto fail = [](const std::string& what, int code) {  // PyTorch's errors go on with a stack trace
    std::fprintf(stderr, "error: %s\n", what.substr(0, what.find('\n')).c_str());
    return code;
  };
  try {
    if (argc > 1 && std::string_view(argv[1]) == "bench") return bench_command(argc - 1, argv + 1);
    int exit_code = -1;
    if (argc == 2 && std::string_view(argv[1]) == "--version") {  // says on what a run would run
      const char* device = std::getenv("TIDEMARK_DEVICE");
      std::fputs(choose_device(device != nullptr ? device : "auto", argv).c_str(), stderr);
    }
    Options options = parse_options(argc, argv, exit_code);
    if (exit_code >= 0) return exit_code;
    if (options.act) return run_act(options.act);
    if (options.command == "report") return report_command(options);
    if (options.command == "list") return list_command(options);
    options.note = choose_device(options.device, argv);
    return under_launcher() ? rank_command(options, argc, argv) : run_command(options, argc, argv);
  } catch (const UsageError& error) {
    return fail(error.what(), 2);
  } catch (const NothingSelected& error) {
    return fail(error.what(), 4);
  } catch (const Unavailable& error) {
    // The same on all ranks of a machine.
    return under_launcher() && local_rank() != 0 ? error.code : fail(error.what(), error.code);
  } catch (const std::exception& error) {
    return fail(error.what(), 3);
  }
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) { return tidemark::leave(tidemark::run_main(argc, argv)); }
