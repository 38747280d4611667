#include "harness/virtual/operators/frame.h"

#include <algorithm>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/device_calls.h"

namespace tidemark::operators {

bool Frame::computes_inside() const {
  return of_extension && device.operations_inside() == operations;
}
void Frame::note_computed() const { operations = device.operations_inside(); }

bool Frame::knows(const at::Tensor& tensor) const {
  if (has_parts(tensor))
    return std::ranges::all_of(parts_of(tensor),
                               [&](const at::Tensor& part) { return knows(part); });
  return std::any_of(arguments.begin(), arguments.end(), [&](const c10::IValue& argument) {
    return !all_tensors(argument,
                        [&](const at::Tensor& other) { return !tensor.is_alias_of(other); });
  });
}

}  // namespace tidemark::operators
