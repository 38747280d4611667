#include "harness/device_choice.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "harness/libraries.h"
#include "harness/plan.h"

namespace tidemark {
namespace {

// Set where the program has been started again: on what, so that it happens once.
constexpr const char* kOn = "TIDEMARK_ON";

void prepend(const char* name, const std::string& value) {
  const char* before = std::getenv(name);
  setenv(name, (before != nullptr && *before != 0 ? value + ":" + before : value).c_str(), 1);
}

bool started_again_on(const std::string& device) {
  const char* on = std::getenv(kOn);
  return on != nullptr && device == on;
}

[[noreturn]] void start_again(const std::string& device, const std::string& folders,
                              const std::string& driver, char** argv) {
  setenv(kOn, device.c_str(), 1);
  // Before the RUNPATH of this program, in which the virtual platform stands; the names that the
  // program itself needs are found first, so PyTorch's own search path finds them there already.
  prepend("LD_LIBRARY_PATH", folders);
  // Alone: the driver's folder may hold other versions of everything.
  if (!driver.empty()) prepend("LD_PRELOAD", driver);
  execv("/proc/self/exe", argv);
  throw Unavailable({fmt::format("--device {}: this program cannot be started again: {}", device,
                                 std::strerror(errno)),
                     3});
}

// Libraries that stand for the other platform.
std::vector<std::string> strangers(bool virtual_wanted) {
  std::vector<std::string> found;
  for (const auto& library : loaded_libraries())
    if (library.virtual_platforms != virtual_wanted) found.push_back(library.path.string());
  return found;
}

void stay_virtual(char** argv) {
  const auto found = strangers(true);
  if (!found.empty() && !started_again_on("virtual"))
    start_again("virtual", virtual_folder().string(), "", argv);
  if (!found.empty())
    throw Unavailable({fmt::format("--device virtual: these stand in its way: {} (LD_PRELOAD, "
                                   "LD_LIBRARY_PATH): take them out",
                                   fmt::join(found, " ")),
                       2});
  int devices = 0;  // the virtual platform obeys that variable like any other
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
      visible != nullptr && cudaGetDeviceCount(&devices) == cudaErrorNoDevice)
    throw Unavailable({fmt::format("CUDA_VISIBLE_DEVICES={} leaves this process no GPU, not even a "
                                   "virtual one: unset it",
                                   visible),
                       2});
}

void require_cuda() {
  if (const auto found = strangers(false); !found.empty())
    throw Unavailable({fmt::format("--device cuda: these stand in the way of NVIDIA's: {} "
                                   "(LD_PRELOAD): take them out",
                                   fmt::join(found, " ")),
                       2});
  if (auto refused = refusal(library_facts()))
    throw Unavailable({"--device cuda: " + refused->why, refused->code});
}

}  // namespace

std::string choose_device(const std::string& device, char** argv) {
  if (device != "auto" && device != "virtual" && device != "cuda")
    throw UsageError("--device " + device + ": unknown device (there are: auto, virtual, cuda)");
  if (device != "virtual" && started_again_on("cuda")) {
    require_cuda();
    return "";
  }
  if (device == "virtual") {
    stay_virtual(argv);
    return "";
  }
  const CudaFacts facts = machine_facts();
  const auto refused = refusal(facts);
  if (!refused)
    start_again("cuda", fmt::format("{}", fmt::join(cuda_folders(), ":")), facts.driver, argv);
  if (device == "cuda") throw Unavailable({"--device cuda: " + refused->why, refused->code});
  stay_virtual(argv);
  return fmt::format("note: on the virtual platform: {}\n", refused->why);
}

}  // namespace tidemark
