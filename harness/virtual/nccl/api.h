// Helpers of the exported functions.
#pragma once

#include "harness/virtual/nccl/failure.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))
/// Opens the definition of ncclX, NCCL_API(result, ncclX)(parameters) { ... }, and makes pncclX the
/// same, for profilers that replace the former.
#define NCCL_API(result, function)                                           \
  EXPORTED __attribute__((alias(#function))) decltype(function) p##function; \
  EXPORTED result function
