// Signature of an operator, read from its schema once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tidemark::operators {

struct Signature {
  explicit Signature(const c10::OperatorHandle& op);

  std::string name;  // with overload: aten::add.Tensor
  std::size_t arguments, returns;
  int generator = -1;  // position of the Generator argument, if any
  int beta = -1;  // position of the factor beta of beta * self + alpha * ..., where there is one
  std::vector<bool> fresh;    // per return: a new tensor, not an alias of an argument
  std::vector<bool> written;  // per argument: in place, or out
  bool host_values = false;   // gives a bool, a number or a list of them
  std::vector<bool> made;     // per return: fresh, or an out argument, which may have been resized
  std::vector<int>
      crossings;  // per argument: how often its bytes cross the memory bus (read, written, both)
  int fresh_crossings = 1;  // per fresh result; gathers also read what they return

  /// The Generator argument, or None.
  c10::IValue generator_of(const std::vector<c10::IValue>& values) const {
    return generator < 0 ? c10::IValue() : values[static_cast<std::size_t>(generator)];
  }

  /// Device bytes read and written: call before the arguments leave the stack, and after the
  /// results are on it.
  std::uint64_t argument_bytes(const c10::IValue* begin) const;
  std::uint64_t result_bytes(const c10::IValue* begin) const;
};

}  // namespace tidemark::operators
