// tidemark, the command: parses, chooses the device, hands over; the one place where an exception
// becomes a line and a code.
#include <cstdio>
#include <exception>
#include <string_view>

#include "harness/cli/commands.h"
#include "harness/cli/files.h"
#include "harness/launch.h"
#include "harness/leave.h"

namespace tidemark {
namespace {

int run_main(int argc, char** argv) {
  auto fail = [](const char* what, int code) {
    std::fprintf(stderr, "error: %s\n", what);
    return code;
  };
  try {
    if (argc > 1 && std::string_view(argv[1]) == "bench") return bench_command(argc - 1, argv + 1);
    int exit_code = -1;
    Options options = parse_options(argc, argv, exit_code);
    if (exit_code >= 0) return exit_code;
    if (options.act) return run_act(options.act);
    if (options.command == "report") return report_command(options);
    choose_device(options.device, argv);
    if (options.command == "list") return list_command(options);
    return under_launcher() ? rank_command(options, argc, argv) : run_command(options, argc, argv);
  } catch (const UsageError& error) {
    return fail(error.what(), 2);
  } catch (const NothingSelected& error) {
    return fail(error.what(), 4);
  } catch (const Unavailable& error) {
    return fail(error.why.c_str(), 77);
  } catch (const std::exception& error) {
    return fail(error.what(), 3);
  }
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) { return tidemark::leave(tidemark::run_main(argc, argv)); }
