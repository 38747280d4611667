#include "harness/virtual/numbers/frame.h"

#include <algorithm>

namespace tidemark::numbers {

bool Frame::knows(const at::Tensor& tensor) const {
  const auto same = [&](const at::Tensor& other) {
    return other.defined() && tensor.is_alias_of(other);
  };
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor() && same(argument.toTensor())) return true;
    if (argument.isTensorList()) {
      const auto list = argument.toTensorVector();
      if (std::any_of(list.begin(), list.end(), same)) return true;
    } else if (argument.isOptionalTensorList()) {
      for (const auto& other : argument.toOptionalTensorVector())
        if (other && same(*other)) return true;
    }
  }
  return false;
}

}  // namespace tidemark::numbers
