#include "harness/virtual/operators/signature.h"

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/operators.h"

namespace tidemark::operators {
namespace {

bool is_host_value(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return false;
    case c10::TypeKind::ListType:
    case c10::TypeKind::OptionalType:
      return is_host_value(*type.containedType(0));
    default:
      return true;
  }
}

}  // namespace

Signature::Signature(const c10::OperatorHandle& op) : name(c10::toString(op.operator_name())) {
  const c10::FunctionSchema& schema = op.schema();
  arguments = schema.arguments().size();
  returns = schema.returns().size();
  bool has_alpha = false;
  for (std::size_t i = 0; i < arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const c10::TypeKind kind = argument.real_type()->kind();
    if (kind == c10::TypeKind::GeneratorType ||
        (kind == c10::TypeKind::OptionalType &&
         argument.real_type()->castRaw<c10::OptionalType>()->getElementType()->kind() ==
             c10::TypeKind::GeneratorType))
      generator = static_cast<int>(i);
    if (argument.name() == "beta") beta = static_cast<int>(i);
    has_alpha |= argument.name() == "alpha";
    const bool is_written = argument.alias_info() && argument.alias_info()->isWrite();
    crossings.push_back(is_written && !argument.is_out() ? 2 : 1);
    written.push_back(is_written);
  }
  if (!has_alpha) beta = -1;
  for (const c10::Argument& result : schema.returns()) {
    fresh.push_back(!result.alias_info());
    made.push_back(!result.alias_info() || result.alias_info()->isWrite());
    host_values |= is_host_value(*result.real_type());
  }
  if (gathers(name) && arguments > 0) {
    crossings[0] = 0;
    fresh_crossings = 2;
  }
}

std::uint64_t Signature::argument_bytes(const c10::IValue* begin) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < arguments; ++i)
    if (crossings[i] != 0) bytes += static_cast<std::uint64_t>(crossings[i]) * bytes_of(begin[i]);
  return bytes;
}

std::uint64_t Signature::result_bytes(const c10::IValue* begin) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < returns; ++i)
    if (fresh[i]) bytes += static_cast<std::uint64_t>(fresh_crossings) * bytes_of(begin[i]);
  return bytes;
}

}  // namespace tidemark::operators
