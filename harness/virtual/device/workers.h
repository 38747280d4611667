// Worker threads of autograd's engine. A backward is over for the thread that has called it when
// the last node has run; the worker lets go of that node, and of what it has saved, a moment later.
// The memory that is alive then must not depend on the load of the machine, so the caller waits
// until no worker has anything to do.
#pragma once

#include <pthread.h>

#include <functional>
#include <string_view>

namespace tidemark::device {

/// True for the type of what a new thread runs, if that is a worker's loop.
bool is_worker_loop(std::string_view type);

/// Starts a worker; `start` returns its thread.
void start_worker(const std::function<pthread_t()>& start);

}  // namespace tidemark::device

extern "C" {
/// Called by Python when autograd's engine has returned, without Python's lock, which a worker may
/// need: waits until the workers rest, for 100 ms at most (a backward of another thread may go on).
[[gnu::visibility("default")]] void tidemark_device_backward_ends(void);
}
