#include "harness/device/driver_answer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "harness/device/cuda_facts.h"
#include "harness/ranks/leave.h"

namespace tidemark {
namespace {

constexpr int kTimeout = 30000;  // ms; a machine with many GPUs takes seconds to start

template <typename Function>
Function* find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

DriverAnswer ask_driver(const std::filesystem::path& path) {
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) return {};
  const pid_t asking = fork();
  if (asking == 0) {
    DriverAnswer answer;
    // The virtual driver's functions are visible to all libraries: this one's calls must reach its
    // own.
    void* library = dlopen(path.c_str(), RTLD_NOW | (kSanitized ? 0 : RTLD_DEEPBIND));
    auto* init = find<int(unsigned)>(library, "cuInit");
    auto* version = find<int(int*)>(library, "cuDriverGetVersion");
    auto* count = find<int(int*)>(library, "cuDeviceGetCount");
    if (init != nullptr && version != nullptr && count != nullptr) {
      answer = {true, init(0), 0, 0};
      version(&answer.version);
      if (answer.error == 0) answer.error = count(&answer.devices);
    }
    [[maybe_unused]] const auto written = write(pipe[1], &answer, sizeof answer);
    _exit(0);
  }
  close(pipe[1]);
  DriverAnswer answer{true, kSilent, 0, 0};  // where it says nothing
  pollfd waiting{pipe[0], POLLIN, 0};
  if (asking > 0 && poll(&waiting, 1, kTimeout) == 1) {
    DriverAnswer arrived;
    if (read(pipe[0], &arrived, sizeof arrived) == sizeof arrived) answer = arrived;
  }
  close(pipe[0]);
  if (asking > 0) {
    kill(asking, SIGKILL);
    waitpid(asking, nullptr, 0);
  }
  return answer;
}

}  // namespace tidemark
