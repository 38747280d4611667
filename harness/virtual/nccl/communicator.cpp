#include "harness/virtual/nccl/communicator.h"

#include <cstddef>
#include <unordered_set>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/debug.h"
#include "harness/virtual/nccl/message_queue.h"

namespace tidemark::nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_set<const ncclComm*> handles;
  int made = 0;
};
Registry& registry() { return device::immortal<Registry>(); }

}  // namespace

ncclComm* make_communicator(const CommId& id, int rank, Members members, bool alone,
                            const ncclConfig_t* config) {
  auto* comm = new ncclComm;  // kept: see the head of communicator.h
  comm->id = id;
  comm->rank = rank;
  comm->size = static_cast<int>(members.processes.size());
  comm->device = cuda::current_device();
  cuda::communicator_made(comm->device);
  comm->alone = alone;
  comm->sent.resize(members.processes.size());
  comm->received.resize(members.processes.size());
  comm->members = std::move(members);
  std::lock_guard lock(registry().mutex);
  // A caller compiled with an NCCL before 2.27 has a shorter structure.
  const bool named =
      config != nullptr && config->size > offsetof(ncclConfig_t, commName) && config->commName;
  comm->name = named ? config->commName : fmt::format("{}", registry().made);
  ++registry().made;
  registry().handles.insert(comm);
  say_version();
  if (says(Level::info))
    say(Level::info, comm->device,
        fmt::format("comm {} rank {} nranks {} cudaDev {} commId {:#x} name {} - Init COMPLETE",
                    fmt::ptr(comm), comm->rank, comm->size, comm->device, id.low, comm->name));
  return comm;
}

ncclComm& known(ncclComm_t handle) {
  if (handle == nullptr) fail(ncclInvalidArgument, "the communicator is NULL");
  std::lock_guard lock(registry().mutex);
  if (!registry().handles.contains(handle)) {
    fail(ncclInvalidArgument, "{} is not a communicator of this process",
         static_cast<const void*>(handle));
  }
  return *handle;
}

ncclComm& check_usable(ncclComm_t handle) {
  ncclComm& comm = known(handle);
  switch (comm.state.load()) {
    case State::live:
      break;
    case State::finalized:
      fail(ncclInvalidUsage, "{} was finalized: only ncclCommDestroy may follow", text_of(comm));
    case State::destroyed:
      fail(ncclInvalidArgument, "{} was destroyed before", text_of(comm));
    case State::aborted:
      fail(ncclInvalidUsage, "{} was aborted before", text_of(comm));
  }
  if (poll_error(comm) != ncclSuccess) {
    std::lock_guard lock(comm.mutex);
    fail(comm.error, "{} failed before: {}", text_of(comm), comm.error_text);
  }
  return comm;
}

void set_error(ncclComm& comm, ncclResult_t code, const std::string& text) {
  std::lock_guard lock(comm.mutex);
  if (comm.error != ncclSuccess) return;
  comm.error = code;
  comm.error_text = text;
}

ncclResult_t poll_error(ncclComm& comm) {
  if (!comm.alone && comm.size > 1) {
    for (const Notice& notice : MessageQueue::of_process().notices(comm.id, comm.rank)) {
      if (notice.failure) set_error(comm, ncclInvalidUsage, notice.text);
    }
  }
  std::lock_guard lock(comm.mutex);
  return comm.error;
}

void notify(ncclComm& comm, int target, bool failure, const std::string& text) {
  const Header header{.comm = comm.id,
                      .kind = Kind::notice,
                      .source = comm.rank,
                      .target = target,
                      .words = {failure ? 1 : 0}};
  MessageQueue::of_process().send(comm.members.processes[static_cast<std::size_t>(target)], header,
                                  Payload::copy_of(text.data(), text.size()));
}

void leave(ncclComm_t handle, State state) {
  ncclComm& comm = known(handle);
  State before = comm.state.load();
  do {
    if (before == State::destroyed || before == State::aborted) {
      fail(ncclInvalidArgument, "{} was {} before", text_of(comm),
           before == State::aborted ? "aborted" : "destroyed");
    }
  } while (!comm.state.compare_exchange_weak(before, state));
  if (says(Level::info))
    say(Level::info, comm.device,
        fmt::format("comm {} rank {} nranks {} cudaDev {} name {} - {} COMPLETE", fmt::ptr(&comm),
                    comm.rank, comm.size, comm.device, comm.name,
                    state == State::aborted ? "Abort" : "Destroy"));
  if (comm.alone) return;
  std::string text = fmt::format("rank {} has {} the communicator", comm.rank,
                                 state == State::aborted ? "aborted" : "destroyed");
  for (int target = 0; target < comm.size; ++target) {
    if (target != comm.rank) notify(comm, target, false, text);
  }
  MessageQueue::of_process().forget(comm.id, comm.rank);
}

std::string text_of(const ncclComm& comm) {
  return fmt::format("rank {} of communicator '{}' ({} ranks)", comm.rank, comm.name, comm.size);
}

}  // namespace tidemark::nccl
