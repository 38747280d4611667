#include "harness/virtual/cupti/records.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "harness/virtual/cupti/clock.h"
#include "harness/virtual/cupti/names.h"

namespace tidemark::cupti {
namespace {

using device::Api;
using device::ProfiledCall;
using device::ProfiledOperation;
using device::Work;

constexpr std::uint32_t kDefaultStream = 7;  // as CUPTI numbers it

enum CopyKind : std::uint8_t { kHtoD = 1, kDtoH = 2, kDtoD = 8, kHtoH = 9, kPtoP = 10 };
CopyKind copy_kind(const Work& work) {
  if (work.between_devices) return kPtoP;
  if (work.from == Work::kDevice) return work.to == Work::kDevice ? kDtoD : kDtoH;
  return work.to == Work::kDevice ? kHtoD : kHtoH;
}

enum SynchronizationType : std::uint32_t { kEvent = 1, kStreamWait = 2, kStream = 3, kContext = 4 };
SynchronizationType type_of_wait(std::string_view function) {
  if (function == "cudaDeviceSynchronize" || function == "cuCtxSynchronize") return kContext;
  if (function == "cudaEventSynchronize" || function == "cuEventSynchronize") return kEvent;
  return kStream;
}

template <class Record>
void add(Group& group, const Record& record) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&record);
  group.insert(group.end(), bytes, bytes + sizeof record);
}

class Writer {
 public:
  Writer(const Kinds& kinds, const DeviceClock& clock) : kinds_(kinds), clock_(clock) {}

  void call(Group& group, const ProfiledCall& call, std::uint32_t number, bool has_operations) {
    const bool written = number != 0 && kinds_[call.api == Api::runtime ? kRuntime : kDriver];
    if (kinds_[kExternalCorrelation] && (written || has_operations)) {
      for (std::uint32_t kind = 0; kind < ProfiledCall::kMarks; ++kind) {
        if (call.marked & (1u << kind))
          add(group, ExternalCorrelation{.external_kind = kind,
                                         .external_id = call.marks[kind],
                                         .correlation_id = call.id});
      }
    }
    if (!written) return;
    add(group, ApiCall{.kind = call.api == Api::runtime ? kRuntime : kDriver,
                       .function = number,
                       .start = call.begin,
                       .end = call.end,
                       .process_id = static_cast<std::uint32_t>(getpid()),
                       .thread_id = call.thread,
                       .correlation_id = call.id});
  }

  void operation(Group& group, const ProfiledOperation& op, const char* function) {
    switch (op.work.type) {
      case Work::Type::kernel:
        return kernel(group, op);
      case Work::Type::copy:
        if (kinds_[kMemcpy]) add(group, copy(op));
        return;
      case Work::Type::fill:
        if (kinds_[kMemset]) add(group, fill(op));
        return;
      case Work::Type::wait:
        if (kinds_[kSynchronization]) add(group, wait(op, function));
        return;
      case Work::Type::stream_wait:
        if (kinds_[kSynchronization]) add(group, wait(op));
        return;
      case Work::Type::record:  // a profiler of synchronisation wants them too
        if (kinds_[kSynchronization] || kinds_[kCudaEvent]) add(group, record(op));
        return;
      case Work::Type::unnamed:
        return;
    }
  }

 private:
  template <class Record>
  Record placed(const ProfiledOperation& op) const {
    Record record;
    record.start = clock_.of(op.begin, op.window);
    record.end = clock_.of(op.end, op.window);
    if constexpr (requires { record.device_id; })
      record.device_id = static_cast<std::uint32_t>(op.device);
    record.context_id = static_cast<std::uint32_t>(op.device) + 1;
    record.stream_id = op.stream == 0 ? kDefaultStream : kDefaultStream + op.stream;
    record.correlation_id = op.call;
    return record;
  }

  void kernel(Group& group, const ProfiledOperation& op) const {
    if (!kinds_[kConcurrentKernel] && !kinds_[kKernel]) return;
    auto record = placed<Kernel>(op);
    if (!kinds_[kConcurrentKernel]) record.kind = kKernel;
    record.completed = record.end;
    record.name = op.name;
    for (int i = 0; i < 3; ++i) {
      record.grid[i] = static_cast<std::int32_t>(op.work.grid[static_cast<std::size_t>(i)]);
      record.block[i] = static_cast<std::int32_t>(op.work.block[static_cast<std::size_t>(i)]);
    }
    record.dynamic_shared_memory = static_cast<std::int32_t>(op.work.shared);
    record.registers_per_thread = static_cast<std::uint16_t>(op.work.registers);
    add(group, record);
  }

  Memcpy copy(const ProfiledOperation& op) const {
    auto record = placed<Memcpy>(op);
    record.copy_kind = copy_kind(op.work);
    record.from_kind = op.work.from;
    record.to_kind = op.work.to;
    record.bytes = op.work.bytes;
    return record;
  }

  Memset fill(const ProfiledOperation& op) const {
    auto record = placed<Memset>(op);
    record.value = op.work.value;
    record.bytes = op.work.bytes;
    record.memory_kind = op.work.to;
    return record;
  }

  Synchronization wait(const ProfiledOperation& op, const char* function) const {
    auto record = placed<Synchronization>(op);
    record.type = type_of_wait(function);
    record.stream_id = ~0u;
    return record;
  }

  Synchronization wait(const ProfiledOperation& op) const {
    auto record = placed<Synchronization>(op);
    record.type = kStreamWait;
    record.event_id = op.work.value;
    return record;
  }

  CudaEvent record(const ProfiledOperation& op) const {
    const auto at = placed<Synchronization>(op);
    return {.correlation_id = op.call,
            .context_id = at.context_id,
            .stream_id = at.stream_id,
            .event_id = op.work.value,
            .device_id = static_cast<std::uint32_t>(op.device),
            .device_timestamp = at.end};
  }

  const Kinds& kinds_;
  const DeviceClock& clock_;
};

}  // namespace

bool is_recorded(RecordKind kind) {
  return kind == kOverhead || kind == kMemcpy2 || size_of(kind) > 0;
}

std::size_t size_of(RecordKind kind) {
  switch (kind) {
    case kMemcpy:
      return sizeof(Memcpy);
    case kMemset:
      return sizeof(Memset);
    case kKernel:
    case kConcurrentKernel:
      return sizeof(Kernel);
    case kDriver:
    case kRuntime:
      return sizeof(ApiCall);
    case kCudaEvent:
      return sizeof(CudaEvent);
    case kSynchronization:
      return sizeof(Synchronization);
    case kExternalCorrelation:
      return sizeof(ExternalCorrelation);
    default:
      return 0;
  }
}

std::vector<Group> groups_of(const device::Activities& activities, const Kinds& kinds,
                             const std::vector<std::uint32_t> (&left_out)[3]) {
  const DeviceClock clock(activities.operations);
  Writer writer(kinds, clock);
  std::unordered_map<std::uint32_t, std::vector<const ProfiledOperation*>> by_call;
  for (const ProfiledOperation& op : activities.operations) by_call[op.call].push_back(&op);
  std::map<std::pair<Api, const char*>, std::uint32_t> numbers;
  std::vector<Group> groups;
  const auto take = [&](std::uint32_t id, Group& group, const char* function) {
    const auto operations = by_call.find(id);
    if (operations == by_call.end()) return;
    for (const ProfiledOperation* const op : operations->second)
      writer.operation(group, *op, function);
    by_call.erase(operations);
  };
  for (const ProfiledCall& call : activities.calls) {
    const auto [known, is_new] = numbers.try_emplace({call.api, call.function}, 0);
    if (is_new) {
      const std::uint32_t number = number_of(call.api, call.function);
      const auto& without = left_out[static_cast<std::size_t>(call.api)];
      if (std::ranges::find(without, number) == without.end()) known->second = number;
    }
    Group group;
    writer.call(group, call, known->second, by_call.contains(call.id));
    take(call.id, group, call.function);
    if (!group.empty()) groups.push_back(std::move(group));
  }
  // Those of calls that have not ended, or of none.
  Group rest;
  for (const auto& [id, operations] : by_call)
    for (const ProfiledOperation* const op : operations) writer.operation(rest, *op, "");
  if (!rest.empty()) groups.push_back(std::move(rest));
  return groups;
}

}  // namespace tidemark::cupti
