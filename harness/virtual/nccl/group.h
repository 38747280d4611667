// Group semantics: between ncclGroupStart and ncclGroupEnd of a thread calls are only collected;
// the outermost end runs them. A call outside a group is a group of one.
#pragma once

#include "harness/virtual/nccl/bootstrap.h"
#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

void start_group();
/// Throws Failure: the first error of any call in the group (nothing has run then), or that of
/// running it.
void end_group();
/// Forgets the calls; microseconds that they would take.
double simulate_group();
/// Marks the thread's open group as failed; without an open group nothing.
void fail_group(ncclResult_t code, const char* text);

void submit(const Operation& operation);
void submit(const Request& request);

}  // namespace tidemark::nccl
