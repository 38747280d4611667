#include "harness/ranks/torchrun.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/errors.h"

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

std::string variable(const char* name) {
  const char* said = std::getenv(name);
  return said != nullptr ? said : "";
}

int number(const char* name) { return std::atoi(variable(name).c_str()); }

// A name that only this gang's processes know, in no folder: nothing is left behind.
struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

Address meeting_place() {
  const std::string text = fmt::format("tidemark-{}-{}-{}-{}-{}", getuid(), variable("MASTER_ADDR"),
                                       variable("MASTER_PORT"), variable("TORCHELASTIC_RUN_ID"),
                                       variable("TORCHELASTIC_RESTART_COUNT"))
                               .substr(0, sizeof(sockaddr_un::sun_path) - 1);
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, text.data(), text.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

// It is closed with the process, which ends with the run.
int open_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

int lead(const std::function<int()>& run, int patience) {
  const int others = number("WORLD_SIZE") - 1;
  const Address here = meeting_place();
  const int door = open_socket();
  if (bind(door, reinterpret_cast<const sockaddr*>(&here.name), here.size) != 0 ||
      listen(door, others) != 0)
    throw std::runtime_error(fmt::format(
        "torchrun's processes cannot connect ({}): does another tidemark use the same MASTER_PORT?",
        std::strerror(errno)));
  std::vector<int> waiting;
  const auto end = Clock::now() + std::chrono::seconds(patience);
  while (static_cast<int>(waiting.size()) < others) {
    pollfd asked{door, POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || poll(&asked, 1, static_cast<int>(left)) <= 0)
      throw UsageError(
          fmt::format("torchrun started {} processes, and only {} connected: on several machines "
                      "use mpirun -n {} tidemark ...",
                      others + 1, waiting.size() + 1, others + 1));
    waiting.push_back(accept4(door, nullptr, nullptr, SOCK_CLOEXEC));
  }
  const auto code = static_cast<unsigned char>(run());
  for (const int each : waiting) send(each, &code, 1, MSG_NOSIGNAL);
  return code;
}

int follow(int patience) {
  const Address there = meeting_place();
  const int line = open_socket();
  const auto end = Clock::now() + std::chrono::seconds(patience);
  while (connect(line, reinterpret_cast<const sockaddr*>(&there.name), there.size) != 0) {
    if (Clock::now() > end)
      throw std::runtime_error("torchrun's first process has not arrived: read its messages");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  unsigned char code = 3;
  while (recv(line, &code, 1, 0) < 0 && errno == EINTR) {
  }
  return code;  // 3 where the first has gone without a word
}

}  // namespace

int torchrun_size() {
  if (number("SLURM_STEP_NUM_TASKS") > 1)
    throw UsageError(
        fmt::format("srun started {} tasks that MPI cannot connect: use srun --mpi=pmix, or mpirun "
                    "-n {} in the allocation",
                    number("SLURM_STEP_NUM_TASKS"), number("SLURM_STEP_NUM_TASKS")));
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
    if (variable(name).empty()) return 0;
  const int size = number("WORLD_SIZE");
  if (size < 1 || number("RANK") < 0 || number("RANK") >= size)
    throw UsageError(fmt::format(
        "RANK={} WORLD_SIZE={}: not a rank of a world; unset them, or start tidemark by torchrun",
        variable("RANK"), variable("WORLD_SIZE")));
  const std::string here = variable("LOCAL_WORLD_SIZE");
  if (number("LOCAL_RANK") != number("RANK") || (!here.empty() && std::atoi(here.c_str()) != size))
    throw UsageError(fmt::format(
        "torchrun on several machines does not start MPI: use mpirun -n {} tidemark ...", size));
  return size;
}

int with_torchrun(const std::function<int()>& run, int patience) {
  return number("RANK") == 0 ? lead(run, patience) : follow(patience);
}

}  // namespace tidemark
