// tidemark gpu rates: the constants of a GPU profile, measured on the present device.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "harness/cli/commands.h"
#include "harness/cli/files.h"
#include "harness/device/platforms.h"
#include "harness/measure/rates/calibrated.h"
#include "harness/measure/rates/rates.h"
#include "harness/ranks/launcher.h"
#include "harness/ranks/watchdog.h"

namespace tidemark {
namespace {

constexpr double kSeconds = 40;           // in which a measurement may begin
constexpr std::chrono::seconds kEnd{55};  // until which all has to be over

}  // namespace

int rates_command(const Options& options) {
  setenv("TIDEMARK_UNKNOWN", "nan", 1);  // copies to the host are timed, nothing reads their bytes
  if (find_launcher())
    throw UsageError(
        "gpu rates measures in one process: start it without mpirun, srun or torchrun");
  const Output output{.out = options.out, .force = options.force};
  try {
    output.check();
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
  if (auto wrong = platform().check_settings(options.gpu, options.capacity); !wrong.empty())
    throw UsageError(wrong);
  std::fputs(options.note.c_str(), stderr);
  const auto shipped = rates::shipped_profile(device_properties().name);
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<const char*> part = "the start of the device";
  const std::jthread watchdog =
      start_watchdog({[] { return std::uint64_t{0}; }, [] { return std::string(); }}, kEnd,
                     [&part](const std::string&) {
                       fmt::print(stderr,
                                  "error: no answer within {} s: {} (nvidia-smi may say why; "
                                  "CUDA_VISIBLE_DEVICES=0 leaves NCCL out)\n",
                                  kEnd.count(), part.load());
                       std::fflush(stderr);
                       std::_Exit(3);
                     });
  const auto measured = rates::measure_rates(kSeconds, [&part](const char* next) { part = next; });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto origin = rates::present_origin();
  fmt::print("{}: {}, {}\n{}", origin.kind, origin.machine, origin.date,
             rates::table(shipped, measured));
  const auto count =
      std::ranges::count_if(measured, [](const auto& rate) { return !!rate.measured; });
  const auto summary = fmt::format("{} of {} constants in {:.1f} s, the rest is {}'s", count,
                                   measured.size(), took.count(), shipped.name);
  if (options.out.empty())
    fmt::print("{} (--out FILE.json keeps them, for run --gpu FILE.json)\n", summary);
  else
    output.deliver(rates::calibrated(shipped, measured, origin), summary);
  return count > 0 ? 0 : 3;
}

}  // namespace tidemark
