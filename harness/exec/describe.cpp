#include "harness/exec/describe.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "harness/device/linked_device.h"

namespace tidemark {

namespace {

std::tm utc_now() {
  static const auto now =
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::gmtime(std::chrono::system_clock::to_time_t(now));
}

}  // namespace

std::string exec_id() { return fmt::format("{:%Y%m%d-%H%M%S}-{}", utc_now(), getpid()); }

RunRecord describe_exec(int argc, char** argv, const std::string& torch, const RunRecord& version) {
  RunRecord run = version;
  run.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc_now());
  run.id = exec_id();
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  run.host = host;
  run.torch = torch;
  run.argv.assign(argv, argv + argc);
  run.argv[0] = "tidemark";
  run.device_kind = "virtual";
  const LinkedGpu gpu = linked_gpu();
  run.profile = gpu.profile;
  run.capacity_bytes = gpu.capacity;
  run.context_bytes = gpu.context;
  run.nccl_bytes = gpu.nccl;
  return run;
}

}  // namespace tidemark
