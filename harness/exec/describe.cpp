#include "harness/exec/describe.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "harness/device/linked_device.h"

namespace tidemark {

RunRecord describe_exec(int argc, char** argv, const std::string& torch, const RunRecord& version) {
  RunRecord run = version;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::tm time = fmt::gmtime(std::chrono::system_clock::to_time_t(now));
  run.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", time);
  run.id = fmt::format("{:%Y%m%d-%H%M%S}-{}", time, getpid());
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  run.host = host;
  run.torch = torch;
  run.argv.assign(argv, argv + argc);
  run.argv[0] = "tidemark";
  run.device_kind = "virtual";
  run.profile = linked_profile();
  run.capacity_bytes = linked_capacity();
  return run;
}

}  // namespace tidemark
