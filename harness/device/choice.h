// Choice of the libraries below PyTorch: the virtual platform's or NVIDIA's.
#pragma once

#include <string>

#include "harness/device/cuda_facts.h"
#include "harness/errors.h"

namespace tidemark {

/// The request of the user. `device`: auto, virtual or cuda. `collectives`: auto, nccl (the
/// platform's own NCCL) or staged (through the host's memory, for ranks that share a GPU).
struct DeviceRequest {
  std::string device, collectives;
  bool alone;  // a process without partners: of NVIDIA's NCCL there is none, so staged on a GPU
};

/// Makes sure that the libraries below PyTorch are those of the request: starts this program again
/// (argv) with another search path if they are not. Returns a line for the user, why `auto` took
/// the virtual platform, or an empty one. Throws UsageError for an unknown word, and Unavailable if
/// the device cannot be had.
std::string choose_device(const DeviceRequest& request, char** argv);

/// Makes `auto` mean staged collectives in the processes that are started from here.
void choose_staged_collectives();
/// True if choose_staged_collectives() was called, here or in the process that started this one.
bool staged_collectives_chosen();

}  // namespace tidemark
