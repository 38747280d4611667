// The reference's numbers in a case's hands: as the values of tensors, and as what its variants are
// held against.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "harness/scenario.h"
#include "reference/multi_mlp.h"

namespace tidemark {

/// Elements [offset, offset + tensor.numel()) of the tensor `name` (reference/deterministic.h), in
/// the tensor's type, on the current stream.
void fill(std::uint64_t seed, const std::string& name, std::int64_t offset, at::Tensor tensor);

std::vector<Shard> whole_tensors(const std::vector<reference::Tensor>& tensors);

/// What reference::train() returned; the tolerance is the case's to say.
template <class Result>
Oracle oracle_of(const Result& result) {
  return {.loss = result.loss,
          .gradients = whole_tensors(result.gradients),
          .parameters = whole_tensors(result.parameters),
          .why = {}};
}

/// Of single precision or bfloat16.
double unit_roundoff(bool single);

}  // namespace tidemark
