// CUPTI's records, which have had the same fields at the same places since CUDA 12.1: later
// versions only add fields at the end. These are the longest versions up to CUDA 13.2, with
// NVIDIA's numbers (cupti_activity.h of the package nvidia-cuda-cupti).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidemark::cupti {

enum Status : int {
  kSuccess = 0,
  kInvalidParameter = 1,
  kMaxLimitReached = 12,
  kQueueEmpty = 18,
  kInvalidKind = 21,
  kNotSupported = 27,
  kMultipleSubscribers = 39,
};

enum RecordKind : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpy2 = 22,
  kCudaEvent = 36,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kKinds = 64,
};

#pragma pack(push, 8)

struct Kernel {  // CUpti_ActivityKernel11
  RecordKind kind = kConcurrentKernel;
  std::uint8_t cache_config = 0, shared_memory_config = 0;
  std::uint16_t registers_per_thread = 0;
  std::uint32_t partitioned_cache_requested = 0, partitioned_cache_executed = 0;
  std::uint64_t start = 0, end = 0, completed = 0;
  std::uint32_t device_id = 0, context_id = 0, stream_id = 0;
  std::int32_t grid[3] = {}, block[3] = {};
  std::int32_t static_shared_memory = 0, dynamic_shared_memory = 0;
  std::uint32_t local_memory_per_thread = 0, local_memory_total = 0, correlation_id = 0;
  std::int64_t grid_id = 0;
  const char* name = nullptr;
  void* reserved = nullptr;
  std::uint64_t queued = 0, submitted = 0;
  std::uint8_t launch_type = 0, carveout_requested = 0, carveout = 0, padding = 0;
  std::uint32_t shared_memory_executed = 0;
  std::uint64_t graph_node_id = 0;
  std::uint32_t shared_limit_config = 0, graph_id = 0;
  void* access_policy = nullptr;
  std::uint32_t channel_id = 0, channel_type = 0;
  std::uint32_t cluster[3] = {}, cluster_policy = 0;
  std::uint64_t local_memory_total_v2 = 0;
  std::uint32_t max_potential_cluster = 0, max_active_clusters = 0;
  std::uint8_t is_device_launched = 0, padding3[7] = {};
  std::int32_t priority = 0;
  std::uint32_t padding4 = 0;
};

struct Memcpy {  // CUpti_ActivityMemcpy6
  RecordKind kind = kMemcpy;
  std::uint8_t copy_kind = 0, from_kind = 0, to_kind = 0, flags = 0;
  std::uint64_t bytes = 0, start = 0, end = 0;
  std::uint32_t device_id = 0, context_id = 0, stream_id = 0;
  std::uint32_t correlation_id = 0, runtime_correlation_id = 0, padding = 0;
  void* reserved = nullptr;
  std::uint64_t graph_node_id = 0;
  std::uint32_t graph_id = 0, channel_id = 0, channel_type = 0;
  std::uint8_t is_device_launched = 0, padding2[3] = {};
  std::uint64_t copy_count = 1;
};

struct Memset {  // CUpti_ActivityMemset4
  RecordKind kind = kMemset;
  std::uint32_t value = 0;
  std::uint64_t bytes = 0, start = 0, end = 0;
  std::uint32_t device_id = 0, context_id = 0, stream_id = 0, correlation_id = 0;
  std::uint16_t flags = 0, memory_kind = 0;
  std::uint32_t padding = 0;
  void* reserved = nullptr;
  std::uint64_t graph_node_id = 0;
  std::uint32_t graph_id = 0, channel_id = 0, channel_type = 0;
  std::uint8_t is_device_launched = 0, padding2[3] = {};
};

struct ApiCall {  // CUpti_ActivityAPI
  RecordKind kind = kRuntime;
  std::uint32_t function = 0;
  std::uint64_t start = 0, end = 0;
  std::uint32_t process_id = 0, thread_id = 0, correlation_id = 0, return_value = 0;
};

struct ExternalCorrelation {  // CUpti_ActivityExternalCorrelation
  RecordKind kind = kExternalCorrelation;
  std::uint32_t external_kind = 0;
  std::uint64_t external_id = 0;
  std::uint32_t correlation_id = 0, reserved = 0;
};

struct Synchronization {  // CUpti_ActivitySynchronization2
  RecordKind kind = kSynchronization;
  std::uint32_t type = 0;
  std::uint64_t start = 0, end = 0;
  std::uint32_t correlation_id = 0, context_id = 0;
  std::uint32_t stream_id = ~0u, event_id = ~0u;
  std::uint64_t event_sync_id = ~std::uint64_t{0};
  std::uint32_t return_value = 0, padding = 0;
};

struct CudaEvent {  // CUpti_ActivityCudaEvent2
  RecordKind kind = kCudaEvent;
  std::uint32_t correlation_id = 0, context_id = 0, stream_id = 0, event_id = 0, padding = 0;
  std::uint32_t device_id = 0, padding2 = 0;
  void* reserved = nullptr;
  std::uint64_t device_timestamp = 0, event_sync_id = 0;
};

#pragma pack(pop)

static_assert(sizeof(Kernel) == 224 && offsetof(Kernel, name) == 104 &&
              offsetof(Kernel, graph_node_id) == 144 && offsetof(Kernel, priority) == 216);
static_assert(sizeof(Memcpy) == 96 && offsetof(Memcpy, correlation_id) == 44 &&
              offsetof(Memcpy, channel_type) == 80);
static_assert(sizeof(Memset) == 88 && offsetof(Memset, memory_kind) == 50 &&
              offsetof(Memset, graph_node_id) == 64);
static_assert(sizeof(ApiCall) == 40 && sizeof(ExternalCorrelation) == 24 &&
              sizeof(Synchronization) == 56 && sizeof(CudaEvent) == 56);

}  // namespace tidemark::cupti
