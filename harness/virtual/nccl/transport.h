// The layer below the exchange of data. Two libraries implement it for the same API: on the clock
// of the virtual device, where operations are placed when they are called (transport.cpp), and on a
// real CUDA runtime, whose streams decide when they run (staged/transport.cpp).
#pragma once

#include <string>
#include <vector>

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

/// All operations of a group, at its end. Throws Failure; afterwards their communicators have the
/// error and the other ranks know of it.
void carry_out(const std::vector<Operation>& operations);

/// Returns once nothing that was called on the communicator is still to be done.
void settle(ncclComm& comm);

/// Estimated duration of the operations of a group, us.
double estimate(const std::vector<Operation>& operations);

/// True if the operation moves bytes; else it only takes its time. In mode known it does where its
/// largest buffer is within the limit: on all ranks or on none.
bool moves_data(const Operation& operation);

/// Mode known: whether bytes have values, and that they have them or not; in the others they have.
bool bytes_known(const void* address, std::size_t bytes);
void mark_bytes(void* address, std::size_t bytes, bool known);

/// The clock that the operations run by, on which all ranks have to agree: "GPU profile h100-80g
/// ..., schedule calibrated"; "" on a GPU, which has its own.
std::string clock_setting();

/// On a communicator without partners: whether this rank's bytes may stand for theirs.
bool stands_for_partners();

/// Notes the words of an error by which the platform refuses a call
/// (harness/virtual/device/refusal.h); nothing on a GPU.
void note_refusal(const std::string& words);

/// Says so on stderr, once a function; the text is for the caller's error.
const char* not_supported(const char* function);

}  // namespace tidemark::nccl
