// Choice of the libraries below PyTorch: the virtual platform's or NVIDIA's.
#pragma once

#include <string>

#include "harness/device/cuda_facts.h"
#include "harness/errors.h"

namespace tidemark {

/// The request of the user. `device`: auto, virtual or cuda. `collectives`: auto, nccl (the
/// platform's own NCCL) or staged (through the host's memory, for ranks that share a GPU).
struct Wanted {
  std::string device, collectives;
  bool alone;  // a process without partners: of NVIDIA's NCCL there is none, so staged on a GPU
};

/// Makes sure that the libraries below PyTorch are those, by starting this program again (argv)
/// with another search path where they are not. Returns only where they are, with a line for the
/// user, or an empty one: why `auto` has taken the virtual platform. Throws UsageError for another
/// word, Unavailable for what cannot be had.
std::string choose_device(const Wanted& wanted, char** argv);

/// What `auto` means for collectives in the processes that are started from here.
void choose_staged_collectives();
/// Whether that has been called, here or in the process that started this one.
bool staged_collectives_chosen();

}  // namespace tidemark
