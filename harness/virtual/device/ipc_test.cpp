// CUDA IPC between two processes: this test, and itself once more as the process that opens.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

template <class Handle>
std::string hex(const Handle& handle) {
  unsigned char bytes[sizeof handle];
  std::memcpy(bytes, &handle, sizeof bytes);
  std::string text;
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

template <class Handle>
Handle handle_in(const char* variable) {
  Handle handle{};
  unsigned char bytes[sizeof handle]{};
  const char* const text = std::getenv(variable);
  for (std::size_t i = 0; text && i < sizeof bytes; ++i) {
    unsigned value = 0;
    std::sscanf(text + 2 * i, "%2x", &value);
    bytes[i] = static_cast<unsigned char>(value);
  }
  std::memcpy(&handle, bytes, sizeof bytes);
  return handle;
}

/// Steps of the other process, and the line that it prints.
void open_and_write() {
  tidemark_device_set_data(std::atoi(std::getenv("IPC_DATA")));
  size_t left = 0, total = 0, now = 0;
  cudaMemGetInfo(&left, &total);
  void *address = nullptr, *again = nullptr;
  const auto memory = handle_in<cudaIpcMemHandle_t>("IPC_MEMORY");
  const cudaError_t error = cudaIpcOpenMemHandle(&address, memory, cudaIpcMemLazyEnablePeerAccess);
  std::printf("open %d\n", error);
  if (error != cudaSuccess) return;
  cudaIpcOpenMemHandle(&again, memory, cudaIpcMemLazyEnablePeerAccess);
  cudaMemGetInfo(&now, &total);
  std::printf("same %d free %d known %d\n", address == again, left == now,
              tidemark_device_is_known(address, 8));
  cudaEvent_t event = nullptr;
  std::printf("event %d\n",
              cudaIpcOpenEventHandle(&event, handle_in<cudaIpcEventHandle_t>("IPC_EVENT")));
  cudaStreamWaitEvent(nullptr, event, 0);
  std::printf("waits %d\n", cudaStreamQuery(nullptr));
  std::printf("is not done %d\n", cudaEventQuery(event));
  if (std::getenv("IPC_SYNCHRONISE")) cudaEventSynchronize(event);
  char read[8] = {};
  std::printf("read %d: ", cudaMemcpy(read, address, 8, cudaMemcpyDeviceToHost));
  for (const char byte : read) std::printf("%d", byte);
  cudaMemset(static_cast<char*>(address) + 4, 5, 4);
  if (!std::getenv("IPC_SYNCHRONISE")) cudaEventRecord(event, nullptr);
  std::printf("\nclose %d %d %d\n", cudaIpcCloseMemHandle(address), cudaIpcCloseMemHandle(address),
              cudaIpcCloseMemHandle(address));
}

/// The process that owns memory and ends.
void make_and_end() {
  void* address = nullptr;
  cudaIpcMemHandle_t handle{};
  cudaMalloc(&address, 8);
  cudaIpcGetMemHandle(&handle, address);
  std::printf("%s", hex(handle).c_str());
}

/// A process that shares memory, and launches a kernel which is not known to write there.
void share_and_launch() {
  static const char function = 0;
  tidemark_device_set_data(2);
  void *shared = nullptr, *own = nullptr;
  cudaIpcMemHandle_t handle{};
  cudaMalloc(&shared, 8);
  cudaMalloc(&own, 8);
  cudaIpcGetMemHandle(&handle, shared);
  const auto print = [&] {
    for (void* const one : {shared, own}) {
      cudaMemset(one, 1, 8);
      std::printf("%d", tidemark_device_is_known(one, 8));
    }
  };
  print();
  register_kernel(&function, "barrier");
  void* none[] = {nullptr};
  launch(&function, none);
  print();
}

/// A process that knows its devices and has no memory yet, and its fork: each has its own.
void fork_and_write() {
  int count = 0, to_child[2], to_parent[2];
  if (cudaGetDeviceCount(&count) || pipe(to_child) || pipe(to_parent)) return;
  tidemark_device_set_data(1);
  const pid_t child = fork();
  int* const ends[] = {to_parent, to_child};
  const int mine = child == 0 ? 0 : 1;
  char token = 0, read_back = 0;
  void* address = nullptr;
  const auto write_once = [&] {
    cudaMalloc(&address, 8);
    cudaMemset(address, 5 + mine, 8);
  };
  if (child == 0) write_once();
  if (child == 0 && write(to_parent[1], &token, 1) != 1) _exit(1);
  if (read(ends[1 - mine][0], &token, 1) != 1) _exit(1);
  if (child != 0) write_once();
  if (child != 0 && write(to_child[1], &token, 1) != 1) _exit(1);
  const cudaError_t error = cudaMemcpy(&read_back, address, 1, cudaMemcpyDeviceToHost);
  if (child == 0) _exit(error ? 90 : read_back);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("fork %d parent %d %d", WEXITSTATUS(status), error, read_back);
}

const bool other = [] {
  const char* const role = std::getenv("IPC_ROLE");
  if (!role) return true;
  if (std::strcmp(role, "opens") == 0) open_and_write();
  if (std::strcmp(role, "ends") == 0) make_and_end();
  if (std::strcmp(role, "forks") == 0) fork_and_write();
  if (std::strcmp(role, "launches") == 0) share_and_launch();
  std::fflush(stdout);
  _exit(0);
}();

std::string run_other(const char* role) {
  setenv("IPC_ROLE", role, 1);
  std::string all;
  char self[4096] = {}, part[256];
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return "";
  FILE* const pipe = popen(self, "r");
  while (pipe && std::fgets(part, sizeof part, pipe)) all += part;
  if (pipe) pclose(pipe);
  unsetenv("IPC_ROLE");
  return all;
}

struct Ipc : Calibrated {
  cudaIpcMemHandle_t handle{};
  cudaIpcEventHandle_t event_handle{};
  cudaEvent_t event = nullptr;

  void share(int data, void* memory) {
    tidemark_device_set_data(data);
    CUDA(cudaMemset(memory, 3, 8));
    CUDA(cudaIpcGetMemHandle(&handle, memory));
    event = make_event(cudaEventInterprocess | cudaEventDisableTiming);
    run(nullptr, 1'000'000'000);
    CUDA(cudaEventRecord(event, nullptr));
    CUDA(cudaIpcGetEventHandle(&event_handle, event));
    setenv("IPC_MEMORY", hex(handle).c_str(), 1);
    setenv("IPC_EVENT", hex(event_handle).c_str(), 1);
    setenv("IPC_DATA", std::to_string(data).c_str(), 1);
  }
};

constexpr const char* kClosed = "close 0 0 1\n";

// holds: harness/virtual/driver/
TEST_F(Ipc, AWriteOfOneProcessIsReadByTheOther) {
  const Memory memory(8);
  share(1, memory);
  EXPECT_EQ(std::string("open 0\nsame 1 free 1 known 0\nevent 0\nwaits 600\nis not done 600\nread "
                        "0: 33333333\n") +
                kClosed,
            run_other("opens"));
  char read[8] = {};
  CUDA(cudaMemcpy(read, memory, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(0, std::memcmp(read, "\3\3\3\3\5\5\5\5", 8));
  CUDA(cudaStreamWaitEvent(nullptr, event, 0));
  CUDA(cudaEventDestroy(event));
}

// The clocks of the processes meet where they hear of each other.
TEST_F(Ipc, WhatOneProcessHasWaitedForTheOtherSeesDone) {
  const Memory memory(8);
  run(nullptr, 5'000'000'000);
  CUDA(cudaDeviceSynchronize());  // the other process begins at 0
  share(1, memory);
  setenv("IPC_SYNCHRONISE", "1", 1);
  EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(event));
  const std::string output = run_other("opens");
  EXPECT_NE(std::string::npos, output.find("is not done 600")) << output;
  unsetenv("IPC_SYNCHRONISE");
  CUDA(cudaEventQuery(event));
}

TEST_F(Ipc, BothKnowWhatOneHasWritten) {
  const Memory memory(8);
  share(2, memory);
  tidemark_device_mark_known(memory + 4, 4, 0);
  EXPECT_NE(std::string::npos, run_other("opens").find("known 0\n"));
  EXPECT_TRUE(tidemark_device_is_known(memory, 8)) << "the other process has written the rest";
  EXPECT_NE(std::string::npos, run_other("opens").find("known 1\n"));
  tidemark_device_mark_known(memory, kMiB, 0);
  EXPECT_FALSE(tidemark_device_is_known(memory, 1));
}

TEST_F(Ipc, AKernelMayOrderProcessesSoThatNothingSharedIsKnown) {
  EXPECT_EQ("1101", run_other("launches")) << "shared and own memory, before and after";
}

TEST_F(Ipc, ErrorsAreThoseOfCuda) {
  void* address = nullptr;
  {
    const Memory memory(8);
    share(0, memory);
    cudaIpcMemHandle_t inside{};
    CUDA(cudaIpcGetMemHandle(&inside, memory + 4));
    EXPECT_EQ(0, std::memcmp(&inside, &handle, sizeof inside)) << "of the whole allocation";
    EXPECT_EQ(cudaErrorDeviceUninitialized,
              cudaIpcOpenMemHandle(&address, handle, cudaIpcMemLazyEnablePeerAccess));
    cudaEvent_t mine = nullptr;
    EXPECT_EQ(cudaErrorDeviceUninitialized, cudaIpcOpenEventHandle(&mine, event_handle));
    EXPECT_EQ(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&address, handle, 0));
  }
  EXPECT_EQ("open 400\n", run_other("opens")) << "it was freed";
  const Memory anew(8);
  EXPECT_EQ("open 400\n", run_other("opens")) << "another allocation lies there";
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaIpcGetEventHandle(&event_handle, make_event()));
  int local = 0;
  EXPECT_EQ(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, &local));
  void* pooled = nullptr;
  CUDA(cudaMallocAsync(&pooled, 8, nullptr));
  EXPECT_EQ(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, pooled));
  CUDA(cudaFreeAsync(pooled, nullptr));
  setenv("IPC_ENDED", run_other("ends").c_str(), 1);
  EXPECT_EQ(cudaErrorInvalidResourceHandle,
            cudaIpcOpenMemHandle(&address, handle_in<cudaIpcMemHandle_t>("IPC_ENDED"),
                                 cudaIpcMemLazyEnablePeerAccess))
      << "its process has ended";
}

TEST_F(Ipc, AForkedProcessHasMemoryOfItsOwn) { EXPECT_EQ("fork 5 parent 0 6", run_other("forks")); }

TEST_F(Ipc, AProcessThatIsForkedLaterHasNoDevice) {
  const Memory memory(8);
  const pid_t child = fork();
  if (child == 0) _exit(cudaMemset(memory, 1, 8) == cudaErrorInitializationError ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(0, status);
}

}  // namespace
