// The NCCL communicators of this process, for the watchdog: it asks for their asynchronous errors
// and aborts them, because a collective whose partner does not come never returns to its caller.
#pragma once

#include <chrono>
#include <string>

struct ncclComm;

namespace tidemark::live_communicators {

/// Adds a communicator of the calling thread's device. `name` is its name in messages
/// ("communicator 1 of 4 ranks").
void add(ncclComm* comm, const std::string& name);
/// Gives it back to its owner, to be ended. False: it was aborted here, and must not be used.
bool take(ncclComm* comm);

/// The asynchronous error of one of them, one line; empty where all are well.
std::string trouble();

/// Ends all of them with ncclCommAbort, and waits for that at most so long: it may itself wait for
/// what never comes. Says how many have not ended by then. From any thread; the process is not to
/// make or use communicators any more.
int abort_all(std::chrono::milliseconds patience);
/// True if it has begun to.
bool aborted();

}  // namespace tidemark::live_communicators
