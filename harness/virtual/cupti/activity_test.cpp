// CUPTI as a profiler uses it: which records there are, and when they say that things happened.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "harness/virtual/cupti/layout.h"
#include "harness/virtual/device/testing.h"

using tidemark::cupti::RecordKind;

extern "C" {
using Callback = void (*)(void*, std::uint32_t domain, std::uint32_t number, const void* data);
int cuptiActivityRegisterCallbacks(void (*)(std::uint8_t**, std::size_t*, std::size_t*),
                                   void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t,
                                            std::size_t));
int cuptiActivityRegisterTimestampCallback(std::uint64_t (*)());
int cuptiActivityEnable(RecordKind);
int cuptiActivityDisable(RecordKind);
int cuptiActivityFlushAll(std::uint32_t);
int cuptiActivityGetNextRecord(std::uint8_t*, std::size_t, void**);
int cuptiActivityPushExternalCorrelationId(std::uint32_t, std::uint64_t);
int cuptiActivityPopExternalCorrelationId(std::uint32_t, std::uint64_t*);
int cuptiActivityEnableRuntimeApi(std::uint32_t, std::uint8_t);
int cuptiSubscribe(void**, Callback, void*);
int cuptiEnableDomain(std::uint32_t, void*, std::uint32_t);
int cuptiFinalize();
}

namespace tidemark::device::testing {
namespace {

using namespace cupti;
constexpr std::uint32_t kLaunchKernel = 211, kMemcpyAsync = 41, kMemsetAsync = 51, kCustom = 3;

/// A clock with three ticks a nanosecond.
std::uint64_t ticks() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return 3 * static_cast<std::uint64_t>(
                 std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::size_t buffer_bytes = 1 << 20;
std::vector<std::vector<std::byte>> records;

void give(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *buffer = new std::uint8_t[buffer_bytes];
  *bytes = buffer_bytes;
  *most = 0;
}
void take(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  std::vector<const std::byte*> begins;
  for (void* record = nullptr; cuptiActivityGetNextRecord(buffer, valid, &record) == kSuccess;)
    begins.push_back(static_cast<const std::byte*>(record));
  const auto* const end = reinterpret_cast<const std::byte*>(buffer) + valid;
  for (std::size_t i = 0; i < begins.size(); ++i)
    records.emplace_back(begins[i], i + 1 < begins.size() ? begins[i + 1] : end);
  delete[] buffer;
}

template <class Record>
std::vector<Record> all() {
  std::vector<Record> matches;
  for (const auto& bytes : records) {
    Record record;
    if (bytes.size() < sizeof record ||
        std::memcmp(bytes.data(), &record.kind, sizeof record.kind) != 0)
      continue;
    std::memcpy(&record, bytes.data(), sizeof record);
    matches.push_back(record);
  }
  return matches;
}

struct Cupti : ::testing::Test {
  void SetUp() override {
    tidemark_device_reset_clock();
    tidemark_device_set_schedule("calibrated");
    buffer_bytes = 1 << 20;
    records.clear();
    cuptiActivityRegisterTimestampCallback(ticks);
    cuptiActivityRegisterCallbacks(give, take);
    for (const RecordKind kind : kinds) ASSERT_EQ(kSuccess, cuptiActivityEnable(kind));
    tidemark_device_trace(1);
  }
  void TearDown() override {
    tidemark_device_trace(0);
    EXPECT_EQ(kSuccess, cuptiFinalize());
  }
  void stop() {
    for (const RecordKind kind : kinds) EXPECT_EQ(kSuccess, cuptiActivityDisable(kind));
    EXPECT_EQ(kSuccess, cuptiActivityFlushAll(1));
  }
  const std::vector<RecordKind> kinds{kMemcpy,  kMemset,          kConcurrentKernel,
                                      kRuntime, kSynchronization, kExternalCorrelation};
  const cudaStream_t stream = make_stream(), other = make_stream();
  const Memory memory{1 << 20};
};

// holds: harness/virtual/README.md, CUPTI
TEST_F(Cupti, CallsAndWhatTheyPutOntoTheDeviceBelongTogether) {
  static const char kernel = 0;
  register_kernel(&kernel, "_Z6kernelv");
  CUDA(cudaDeviceSynchronize());
  cuptiActivityPushExternalCorrelationId(kCustom, 77);
  CUDA(cudaLaunchKernel(&kernel, dim3(5, 2), dim3(64), nullptr, 128, stream));
  std::uint64_t id = 0;
  EXPECT_EQ(kSuccess, cuptiActivityPopExternalCorrelationId(kCustom, &id));
  EXPECT_EQ(77u, id);
  EXPECT_EQ(kQueueEmpty, cuptiActivityPopExternalCorrelationId(kCustom, &id));
  char host[64];
  CUDA(cudaMemsetAsync(memory, 3, 512, other));
  CUDA(cudaMemcpyAsync(memory, host, sizeof host, cudaMemcpyHostToDevice, nullptr));
  stop();

  const auto calls = all<ApiCall>();
  const auto call = [&](std::uint32_t function) {
    const auto api_call = std::ranges::find(calls, function, &ApiCall::function);
    EXPECT_NE(calls.end(), api_call) << function;
    return api_call == calls.end() ? ApiCall{} : *api_call;
  };
  const auto kernels = all<Kernel>();
  ASSERT_EQ(1u, kernels.size());
  EXPECT_STREQ("_Z6kernelv", kernels[0].name);
  EXPECT_EQ(call(kLaunchKernel).correlation_id, kernels[0].correlation_id);
  EXPECT_EQ(5, kernels[0].grid[0]);
  EXPECT_EQ(2, kernels[0].grid[1]);
  EXPECT_EQ(64, kernels[0].block[0]);
  EXPECT_EQ(128, kernels[0].dynamic_shared_memory);
  const auto marks = all<ExternalCorrelation>();
  ASSERT_EQ(1u, marks.size());
  EXPECT_EQ(77u, marks[0].external_id);
  EXPECT_EQ(kCustom, marks[0].external_kind);
  EXPECT_EQ(kernels[0].correlation_id, marks[0].correlation_id);
  const auto sets = all<Memset>();
  ASSERT_EQ(1u, sets.size());
  EXPECT_EQ(call(kMemsetAsync).correlation_id, sets[0].correlation_id);
  EXPECT_EQ(512u, sets[0].bytes);
  EXPECT_EQ(3u, sets[0].value);
  EXPECT_NE(kernels[0].stream_id, sets[0].stream_id);
  const auto copies = all<Memcpy>();
  ASSERT_EQ(1u, copies.size());
  EXPECT_EQ(call(kMemcpyAsync).correlation_id, copies[0].correlation_id);
  EXPECT_EQ(1, copies[0].copy_kind);   // host to device
  EXPECT_EQ(7u, copies[0].stream_id);  // the default stream
  EXPECT_EQ(64u, copies[0].bytes);
}

// CUPTI's numbers: host to device 1, device to host 2, within a device 8, within the host 9.
TEST_F(Cupti, CopiesSayBetweenWhatTheyCopy) {
  tidemark_device_set_data(1);
  char host[64] = {}, also_host[64];
  CUDA(cudaMemcpyAsync(memory, host, 64, cudaMemcpyDefault, stream));
  CUDA(cudaMemcpyAsync(host, memory, 64, cudaMemcpyDefault, stream));
  CUDA(cudaMemcpyAsync(memory + 64, memory, 64, cudaMemcpyDefault, stream));
  CUDA(cudaMemcpyAsync(also_host, host, 64, cudaMemcpyDefault, stream));
  tidemark_device_set_data(0);
  stop();
  std::vector<int> copy_kinds;
  for (const Memcpy& copy : all<Memcpy>()) copy_kinds.push_back(copy.copy_kind);
  EXPECT_EQ(copy_kinds, (std::vector<int>{1, 2, 8, 9}));
}

TEST_F(Cupti, TimesOfTheDeviceAreThoseOfTheVirtualClock) {
  const std::uint64_t begin = ticks();
  cuptiActivityPushExternalCorrelationId(kCustom, 1);
  run(stream, 3'000'000);
  run(other, 1'000'000);
  run(stream, 2'000'000);
  CUDA(cudaDeviceSynchronize());
  const std::uint64_t end = ticks();
  stop();
  cuptiActivityPopExternalCorrelationId(kCustom, nullptr);
  const auto kernels = all<Kernel>();
  const auto spans = traced();
  ASSERT_EQ(3u, kernels.size());
  ASSERT_EQ(3u, spans.size());
  std::map<std::uint32_t, std::uint64_t> called;
  for (const ApiCall& call : all<ApiCall>()) called[call.correlation_id] = call.start;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto near = [](std::uint64_t from, std::uint64_t to, std::int64_t wanted) {
      EXPECT_NEAR(static_cast<double>(to - from) / 3, static_cast<double>(wanted),
                  0.01 * static_cast<double>(wanted) + 2);
    };
    near(kernels[i].start, kernels[i].end, spans[i].end - spans[i].begin);
    near(kernels[0].start, kernels[i].start, spans[i].begin - spans[0].begin);
    EXPECT_GE(kernels[i].start, called.at(kernels[i].correlation_id));
    EXPECT_GE(kernels[i].start, begin);
    EXPECT_LE(kernels[i].end, end) << "the host has waited in real time";
  }
}

TEST_F(Cupti, RecordsOfEventsAndWaitsForThemNameTheEvent) {
  cudaEvent_t event = nullptr;
  CUDA(cudaEventCreate(&event));
  run(stream, 1000);
  CUDA(cudaEventRecord(event, stream));
  CUDA(cudaStreamWaitEvent(other, event));
  CUDA(cudaEventSynchronize(event));
  stop();
  const auto events = all<CudaEvent>();
  const auto waits = all<Synchronization>();
  ASSERT_EQ(1u, events.size());
  ASSERT_EQ(2u, waits.size());
  EXPECT_EQ(2u, waits[0].type);
  EXPECT_EQ(events[0].event_id, waits[0].event_id);
  EXPECT_NE(events[0].stream_id, waits[0].stream_id);
  EXPECT_EQ(1u, waits[1].type);
  CUDA(cudaEventDestroy(event));
}

TEST_F(Cupti, WhatRanBeforeTheWindowIsNotInIt) {
  run(stream, 1000);
  const std::uint64_t begin = ticks();
  cuptiActivityPushExternalCorrelationId(kCustom, 1);  // of the first operator of the window
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  run(stream, 1000);
  CUDA(cudaDeviceSynchronize());
  stop();
  cuptiActivityPopExternalCorrelationId(kCustom, nullptr);
  const auto kernels = all<Kernel>();
  ASSERT_EQ(2u, kernels.size());
  EXPECT_LT(kernels[0].start, begin);
  EXPECT_GE(kernels[1].start, begin);
}

TEST_F(Cupti, NothingIsToldThatIsNotEnabled) {
  cuptiActivityEnableRuntimeApi(kMemsetAsync, 0);
  CUDA(cudaMemsetAsync(memory, 0, 64, stream));
  cuptiActivityDisable(kConcurrentKernel);
  run(stream, 1000);
  for (const RecordKind kind : kinds) cuptiActivityDisable(kind);
  CUDA(cudaMemsetAsync(memory, 0, 64, stream));
  cuptiActivityFlushAll(0);
  EXPECT_EQ(1u, all<Memset>().size());
  for (const ApiCall& call : all<ApiCall>()) EXPECT_NE(kMemsetAsync, call.function);
  const std::size_t before = records.size();
  cuptiActivityFlushAll(0);
  EXPECT_EQ(before, records.size());
  cuptiActivityEnableRuntimeApi(kMemsetAsync, 1);
}

TEST_F(Cupti, BuffersMayBeSmall) {
  cuptiActivityFlushAll(0);
  buffer_bytes = sizeof(Kernel) + 8;  // a call and its kernel do not fit into one
  cuptiActivityFlushAll(0);
  for (int i = 0; i < 100; ++i) run(stream, 1000);
  stop();
  EXPECT_EQ(100u, all<Kernel>().size());
  EXPECT_EQ(100u, all<ApiCall>().size());
}

TEST_F(Cupti, ASubscriberIsToldOfCallsAndMayEndEverythingInOne) {
  static std::vector<std::uint32_t> callbacks;
  callbacks.clear();
  void* handle = nullptr;
  const Callback callback = [](void*, std::uint32_t, std::uint32_t number, const void* data) {
    std::uint32_t site = 0;
    std::memcpy(&site, data, sizeof site);
    callbacks.push_back(2 * number + site);
    if (callbacks.size() == 2) cuptiFinalize();
  };
  ASSERT_EQ(kSuccess, cuptiSubscribe(&handle, callback, nullptr));
  EXPECT_EQ(kMultipleSubscribers, cuptiSubscribe(&handle, callback, nullptr));
  ASSERT_EQ(kSuccess, cuptiEnableDomain(1, handle, 2));
  for (int i = 0; i < 3; ++i) CUDA(cudaMemsetAsync(memory, 0, 64, stream));
  EXPECT_EQ((std::vector<std::uint32_t>{2 * kMemsetAsync, 2 * kMemsetAsync + 1}), callbacks);
}

}  // namespace
}  // namespace tidemark::device::testing
