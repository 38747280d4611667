#include "harness/device/choice.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "harness/device/libraries.h"
#include "harness/device/machine_facts.h"
#include "harness/errors.h"

namespace tidemark {
namespace {

// Set where the program has been started again: on what, so that it happens once.
constexpr const char* kOn = "TIDEMARK_ON";
constexpr const char* kStaged = "TIDEMARK_STAGED";

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
  throw Unavailable(fmt::format("--device {}: this program cannot be started again: {}", device,
                                std::strerror(errno)),
                    3);
}

struct Ground {
  bool is_virtual, staged;

  std::string name() const {
    return std::string(is_virtual ? "virtual" : "cuda") + (staged ? "+staged" : "");
  }
  Maker maker_of(const Library& library) const {
    if (staged && library.name.starts_with("libnccl.")) return Maker::staged;
    return is_virtual ? Maker::virtual_platform : Maker::nvidia;
  }
  std::string folders() const {
    std::vector<std::string> all =
        is_virtual ? std::vector{virtual_folder().string()} : cuda_folders();
    if (staged) all.insert(all.begin(), staged_folder().string());
    return fmt::format("{}", fmt::join(all, ":"));
  }
};

// Libraries that are none of this ground's.
std::vector<std::string> strangers(const Ground& ground) {
  std::vector<std::string> paths;
  for (const auto& library : loaded_libraries())
    if (library.maker != ground.maker_of(library)) paths.push_back(library.path.string());
  return paths;
}

void stay_virtual(bool staged, char** argv) {
  const Ground ground{true, staged};
  const auto foreign_libraries = strangers(ground);
  if (!foreign_libraries.empty() && !started_again_on(ground.name()))
    start_again(ground.name(), ground.folders(), "", argv);
  if (!foreign_libraries.empty())
    throw Unavailable(fmt::format("--device virtual: these stand in its way: {} (LD_PRELOAD, "
                                  "LD_LIBRARY_PATH): take them out",
                                  fmt::join(foreign_libraries, " ")),
                      2);
  int devices = 0;  // the virtual platform obeys that variable like any other
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
      visible != nullptr && cudaGetDeviceCount(&devices) == cudaErrorNoDevice)
    throw Unavailable(fmt::format("CUDA_VISIBLE_DEVICES={} leaves this process no GPU, not even a "
                                  "virtual one: unset it",
                                  visible),
                      2);
}

void require_cuda(const Ground& ground) {
  if (const auto foreign_libraries = strangers(ground); !foreign_libraries.empty())
    throw Unavailable(fmt::format("--device cuda: these stand in the way of NVIDIA's: {} "
                                  "(LD_PRELOAD): take them out",
                                  fmt::join(foreign_libraries, " ")),
                      2);
  if (auto refused = refusal(library_facts()))
    throw Unavailable("--device cuda: " + refused->why, refused->code);
}

bool wants_staged(const DeviceRequest& request) {
  const auto& word = request.collectives;
  if (word != "auto" && word != "nccl" && word != "staged")
    throw UsageError("--collectives " + word + ": unknown (there are: auto, nccl, staged)");
  return word == "staged" || (word == "auto" && staged_collectives_chosen());
}

// A rehearsal of what runs on a GPU may have them on the virtual device too.
void require_sense(bool staged) {
  if (staged && std::getenv("TIDEMARK_PLATFORM") == nullptr)
    throw UsageError(
        "--collectives staged is for ranks that share a GPU, and every rank has a virtual GPU of "
        "its own");
}

}  // namespace

void choose_staged_collectives() { setenv(kStaged, "1", 1); }

bool staged_collectives_chosen() { return std::getenv(kStaged) != nullptr; }

std::string choose_device(const DeviceRequest& request, char** argv) {
  const std::string& device = request.device;
  if (device != "auto" && device != "virtual" && device != "cuda")
    throw UsageError("--device " + device + ": unknown device (there are: auto, virtual, cuda)");
  const bool staged = wants_staged(request);
  if (request.alone && request.collectives == "nccl")
    throw UsageError(
        "--collectives nccl: NVIDIA's NCCL cannot run with --as-rank; leave out one of the two");
  const Ground cuda{false, staged || request.alone};
  if (device != "virtual" && started_again_on(cuda.name())) {
    require_cuda(cuda);
    return "";
  }
  if (device == "virtual") {
    require_sense(staged);
    stay_virtual(staged, argv);
    return "";
  }
  const CudaFacts facts = machine_facts();
  const auto refused = refusal(facts);
  if (!refused) {
    if (cuda.staged)
      setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // streams that wait hold up others
    start_again(cuda.name(), cuda.folders(), facts.driver, argv);
  }
  if (device == "cuda") throw Unavailable("--device cuda: " + refused->why, refused->code);
  require_sense(staged);
  stay_virtual(staged, argv);
  return fmt::format("note: virtual device ({})\n",
                     refused->brief.empty() ? refused->why : refused->brief);
}

}  // namespace tidemark
