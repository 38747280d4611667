// The exported functions that make communicators from other communicators, and all of a process at
// once.
#include <algorithm>
#include <set>

#include "harness/virtual/nccl/api.h"
#include "harness/virtual/nccl/communicator.h"
#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/group.h"
#include "harness/virtual/nccl/message_queue.h"
#include "harness/virtual/nccl/unique_id.h"

namespace tidemark::nccl {
namespace {

ncclComm* make_child(const ncclComm& parent, const CommId& id, const std::vector<int>& members,
                     const ncclConfig_t* config, const char* how) {
  Members of_child;
  for (int member : members) {
    of_child.processes.push_back(parent.members.processes[static_cast<std::size_t>(member)]);
    of_child.places.push_back(parent.members.places[static_cast<std::size_t>(member)]);
  }
  auto place = std::find(members.begin(), members.end(), parent.rank) - members.begin();
  cuda::OnDevice on(parent.device);
  ncclComm* child = make_communicator(id, static_cast<int>(place), of_child,
                                      parent.alone && members.size() > 1, config);
  if (config == nullptr || config->commName == nullptr)
    child->name = fmt::format("{}/{}", parent.name, how);
  return child;
}

// The ranks with this one's color, by key, then by rank.
std::vector<int> of_one_color(const std::vector<MessagePtr>& parts, std::int64_t color) {
  std::vector<std::pair<std::int64_t, int>> keyed_ranks;
  for (const MessagePtr& part : parts) {
    if (part->header.words[0] == color)
      keyed_ranks.emplace_back(part->header.words[1], part->header.source);
  }
  std::sort(keyed_ranks.begin(), keyed_ranks.end());
  std::vector<int> members;
  for (const auto& [key, rank] : keyed_ranks) members.push_back(rank);
  return members;
}

// One communicator of `count` ranks, each on a device of this process (null: devices 0 to
// count-1).
void init_all(ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr) fail(ncclInvalidArgument, "the pointer to the communicators is NULL");
  if (count < 1) fail(ncclInvalidArgument, "{} devices: at least one is needed", count);
  std::set<int> seen;
  ncclUniqueId unique = new_unique_id();
  CommId id = id_of(&unique, 1);
  std::vector<ncclComm*> made;
  const std::vector<int> all_here(static_cast<std::size_t>(count), here);
  for (int rank = 0; rank < count; ++rank) {
    int device = devices == nullptr ? rank : devices[rank];
    if (!seen.insert(device).second) fail(ncclInvalidUsage, "device {} is listed twice", device);
    cuda::OnDevice on(device);
    made.push_back(make_communicator(id, rank, {all_here, all_here}, false, nullptr));
  }
  std::copy(made.begin(), made.end(), comms);
}

// The ranks of one color, ordered by key, then by rank; *result is null for NCCL_SPLIT_NOCOLOR.
// Joins an open group.
void split(ncclComm_t handle, int color, int key, ncclComm_t* result, const ncclConfig_t* config) {
  ncclComm& parent = check_usable(handle);
  if (result == nullptr) fail(ncclInvalidArgument, "the pointer to the new communicator is NULL");
  if (color < NCCL_SPLIT_NOCOLOR) fail(ncclInvalidArgument, "color {} is negative", color);
  *result = nullptr;
  if (parent.alone && color != NCCL_SPLIT_NOCOLOR) {
    fail(ncclInvalidUsage,
         "{} has no partners that could say their colors: make the sub-group with "
         "ncclCommInitRank, which names its size (in "
         "PyTorch: init_process_group without device_id)",
         text_of(parent));
  }
  if (parent.alone) return;
  Operation operation{
      .comm = &parent, .call = {.function = Function::split}, .words = {color, key}};
  std::uint64_t number;
  {
    std::lock_guard lock(parent.mutex);
    number = parent.children++;
  }
  operation.finish = [&parent, color, result, config, number](const Exchange& exchange) {
    if (color == NCCL_SPLIT_NOCOLOR) return;
    CommId id = child_of(parent.id, 2 * number, static_cast<std::uint64_t>(color));
    *result = make_child(parent, id, of_one_color(exchange.parts(), color), config, "split");
  };
  submit(operation);
}

// All ranks but the excluded ones, which need not (and may not) call. With NCCL_SHRINK_ABORT the
// parent may be in error; it is aborted first.
void shrink(ncclComm_t handle, const int* excluded, int count, ncclComm_t* result,
            const ncclConfig_t* config, int flags) {
  ncclComm& parent = (flags & NCCL_SHRINK_ABORT) != 0 ? known(handle) : check_usable(handle);
  if (parent.state != State::live)
    fail(ncclInvalidUsage, "{} is no longer in use", text_of(parent));
  if (result == nullptr) fail(ncclInvalidArgument, "the pointer to the new communicator is NULL");
  if (excluded == nullptr || count < 1) fail(ncclInvalidArgument, "no rank to exclude was given");
  std::set<int> out(excluded, excluded + count);
  for (int rank : out) {
    if (rank < 0 || rank >= parent.size)
      fail(ncclInvalidArgument, "excluded rank {} is not one of {}", rank, parent.size);
  }
  if (out.contains(parent.rank))
    fail(ncclInvalidUsage, "rank {} is excluded and must not call", parent.rank);
  std::vector<int> members;
  for (int rank = 0; rank < parent.size; ++rank) {
    if (!out.contains(rank)) members.push_back(rank);
  }
  // The numbers of calls made may differ between the ranks after an error: the members name the
  // child.
  CommId id = child_of(parent.id, 1, 0);
  for (int member : members) id = child_of(id, 1, static_cast<std::uint64_t>(member));
  {
    std::lock_guard lock(parent.mutex);
    id = child_of(id, parent.shrunk++, 0);
  }
  ncclComm* child = make_child(parent, id, members, config, "shrink");
  submit(Operation{.comm = child,
                   .call = {.function = Function::shrink},
                   .finish = [child, result](const Exchange&) { *result = child; }});
}

}  // namespace
}  // namespace tidemark::nccl

using namespace tidemark::nccl;

NCCL_API(ncclResult_t, ncclCommInitAll)(ncclComm_t* comms, int count, const int* devices) {
  return at_border("ncclCommInitAll", [&] { init_all(comms, count, devices); });
}

NCCL_API(ncclResult_t, ncclCommSplit)
(ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  return at_border("ncclCommSplit", [&] { split(comm, color, key, result, config); });
}

NCCL_API(ncclResult_t, ncclCommShrink)
(ncclComm_t comm, int* excluded, int count, ncclComm_t* result, ncclConfig_t* config, int flags) {
  return at_border("ncclCommShrink", [&] { shrink(comm, excluded, count, result, config, flags); });
}
