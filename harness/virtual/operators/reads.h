// Memory that operators read, for the record of the process.
#pragma once

#include "harness/virtual/operators/kernels.h"

namespace tidemark::operators {

/// From now on with_reads() notes. Called before a mode is entered.
void follow_reads();
/// The kernel, which notes the memory that each call reads (../recorder/recorder.h): that of all
/// tensors among its arguments but those that it overwrites.
Kernel with_reads(const c10::OperatorHandle& op, Kernel kernel);

}  // namespace tidemark::operators
