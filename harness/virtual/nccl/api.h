// Helpers of the exported functions.
#pragma once

#include "harness/virtual/nccl/failure.h"

#define NCCL_API extern "C" __attribute__((visibility("default")))
/// pncclX is ncclX, for profilers that replace the latter.
#define PROFILED(function) NCCL_API __attribute__((alias(#function))) decltype(function) p##function
