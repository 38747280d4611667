// The arithmetic of reductions. Inputs are combined in rank order, 0 to n-1, whatever came first,
// so results are the same bits on every run and on every rank. Accumulated in: float for float16,
// bfloat16 and both float8 (one rounding at the end, to nearest even; float8 saturates to the
// largest finite value) and float32; double for float64; 64-bit integers, which wrap, for the
// integers. avg divides at the end (integers: towards zero); premul-sum multiplies each rank's
// input by that rank's scalar first, in the accumulation type. min and max ignore a NaN beside a
// number, as NCCL's fmin and fmax do.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/virtual/nccl/call.h"

namespace tidemark::nccl {

struct Input {
  const void* data;
  std::int64_t scalar_bits = 0;  // premul-sum: see to_scalar
};

/// out[i] = in[0][i] op in[1][i] op ...; `out` may be one of the inputs. `ranks` is what avg
/// divides by.
void reduce(void* out, const std::vector<Input>& inputs, std::size_t count, ncclDataType_t type,
            Reduction reduction, int ranks);

/// One element of a type, as it travels beside a call: a double's bits for floating types, else the
/// integer.
std::int64_t to_scalar(const void* element, ncclDataType_t type);

}  // namespace tidemark::nccl
