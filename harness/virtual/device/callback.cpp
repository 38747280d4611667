// Host functions run on one thread of their own, in the order in which they were enqueued, as
// CUDA's do: the caller may hold a lock that they take.
#include <condition_variable>
#include <deque>
#include <thread>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/race_detector.h"
#include "harness/virtual/device/stream.h"

namespace tidemark::device {
namespace {

struct Callback {
  std::uint32_t stream;
  std::uint64_t place;  // in that stream
  void (*function)(void*);
  void* argument;
};

struct Queue {
  std::mutex mutex;
  std::condition_variable arrived, ran;
  std::deque<Callback> pending;  // the first may be running
  std::atomic<std::size_t> size{0};

  Queue() {
    std::thread([this] {
      race::ignore_this_thread();
      std::unique_lock lock(mutex);
      for (;;) {
        arrived.wait(lock, [this] { return !pending.empty(); });
        const Callback next = pending.front();
        lock.unlock();
        next.function(next.argument);
        lock.lock();
        pending.pop_front();
        size = pending.size();
        ran.notify_all();
      }
    }).detach();
  }

  bool before(const VectorClock& clock) const {
    for (const Callback& c : pending) {
      if (c.place <= clock[c.stream]) return true;
    }
    return false;
  }
};

std::atomic<Queue*> started{nullptr};

Queue& queue() {
  static Queue& instance = *new Queue;
  started = &instance;
  return instance;
}

}  // namespace

bool callbacks_pending(const VectorClock& clock) {
  Queue* q = started;
  if (!q || q->size == 0) return false;
  std::lock_guard lock(q->mutex);
  return q->before(clock);
}

void await_callbacks(const VectorClock& clock) {
  Queue& q = queue();
  std::unique_lock lock(q.mutex);
  q.ran.wait(lock, [&] { return !q.before(clock); });
}

cudaError_t enqueue_host_function(StreamHandle stream, void (*function)(void*), void* argument) {
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!function) return cudaErrorInvalidValue;
  pay_launch(e);
  if (s->capture)
    return capture(*s, {.type = cudaGraphNodeTypeHost, .run = [=](StreamHandle to) {
                          enqueue_host_function(to, function, argument);
                        }});
  if (const cudaError_t error = implicit_in_capture(*s)) return error;
  e.append(*s, 0, "host function");
  Queue& q = queue();
  std::lock_guard queued(q.mutex);
  q.pending.push_back({s->index, s->count, function, argument});
  q.size = q.pending.size();
  q.arrived.notify_one();
  return cudaSuccess;
}

}  // namespace tidemark::device
