// A stand-in for the CUDA runtime under the staged NCCL: every stream is a thread that works off
// its queue, so the host runs ahead of it and two streams run at once, as on a GPU. What is not
// here, the library does not call.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;  // the first is running
  bool over = false;
  std::thread thread{[this] { run(); }};

  void enqueue(std::function<void()> what) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(what));
    changed.notify_all();
  }
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return over || !queue.empty(); });
      if (queue.empty()) return;
      lock.unlock();
      queue.front()();  // only this thread takes from the front
      lock.lock();
      queue.pop_front();
      changed.notify_all();
    }
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return queue.empty(); });
  }
};

namespace {

std::uint32_t& word(CUdeviceptr at) { return *reinterpret_cast<std::uint32_t*>(at); }

CUresult write_word(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned) {
  stream->enqueue([=] { __atomic_store_n(&word(at), value, __ATOMIC_RELEASE); });
  return CUDA_SUCCESS;
}

CUresult wait_for_word(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned) {
  stream->enqueue([=] {
    while (static_cast<std::int32_t>(__atomic_load_n(&word(at), __ATOMIC_ACQUIRE) - value) < 0)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
  return CUDA_SUCCESS;
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, bytes); }
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return allocate(memory, bytes);
}
cudaError_t cudaHostGetDevicePointer(void** on_device, void* on_host, unsigned) {
  *on_device = on_host;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream->enqueue([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  stream->enqueue([=] { function(argument); });
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->wait();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(stream->mutex);
    stream->over = true;
    stream->changed.notify_all();
  }
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error";
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool writes = std::string_view(name) == "cuStreamWriteValue32";
  *function = reinterpret_cast<void*>(writes ? write_word : wait_for_word);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
}
