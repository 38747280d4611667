// Calls of operators by name: of tensors and constants, with the defaults of all other arguments.
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <stdexcept>

#include "harness/virtual/operators/sweep.h"

namespace tidemark::operators {
namespace {

using Constants = std::vector<c10::IValue>;

// A call takes so many tensors, then these constants, with `out` one more tensor to write into, and
// nothing else.
bool takes(const std::vector<c10::Argument>& arguments, std::size_t tensors,
           const Constants& constants, bool out) {
  if (arguments.size() < tensors + constants.size() + out || arguments.back().is_out() != out)
    return false;
  auto next = arguments.begin();
  for (std::size_t i = 0; i < tensors; ++i)
    if (!c10::TensorType::get()->isSubtypeOf(*(next++)->type())) return false;
  for (const c10::IValue& constant : constants)
    if (!constant.type()->isSubtypeOf(*(next++)->type())) return false;
  return std::all_of(next, arguments.end() - out,
                     [](const c10::Argument& one) { return one.default_value().has_value(); });
}

// Chooses the overload with the fewest arguments, as C++ does.
c10::OperatorHandle overload(const std::string& name, std::size_t tensors,
                             const Constants& constants, bool out) {
  std::optional<c10::OperatorHandle> shortest;
  const auto size = [](const c10::OperatorHandle& op) { return op.schema().arguments().size(); };
  for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames()) {
    if (each.name != "aten::" + name) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(each);
    if (op && takes(op->schema().arguments(), tensors, constants, out) &&
        (!shortest || size(*op) < size(*shortest)))
      shortest = op;
  }
  if (!shortest) throw std::logic_error("no operator " + name + " of these tensors and constants");
  return *shortest;
}

Tensors call(const c10::OperatorHandle& op, const Tensors& inputs, const Constants& constants,
             bool out) {
  torch::jit::Stack stack(inputs.begin(), inputs.end() - out);
  stack.insert(stack.end(), constants.begin(), constants.end());
  const auto& arguments = op.schema().arguments();
  while (stack.size() < arguments.size() - out)
    stack.push_back(*arguments[stack.size()].default_value());
  if (out) stack.emplace_back(inputs.back());
  op.callBoxed(stack);
  Tensors results;
  for (const c10::IValue& result : stack) results.push_back(result.toTensor());
  return results;
}

void add_one(std::vector<Case>& cases, const Tensors& inputs, const std::string& label,
             const Constants& constants, bool out, bool values, bool vary) {
  const auto op = overload(label.substr(0, label.find('.')), inputs.size() - out, constants, out);
  cases.push_back(
      {label, inputs, [=](const Tensors& t) { return call(op, t, constants, out); }, values, vary});
}

}  // namespace

void add_named(std::vector<Case>& cases, const Tensors& inputs,
               const std::vector<std::string>& labels, const Constants& constants, bool values,
               bool vary) {
  for (const std::string& label : labels)
    add_one(cases, inputs, label, constants, false, values, vary);
}

void add_forms(std::vector<Case>& cases, const Tensors& inputs,
               const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    add_named(cases, inputs, {name + "_", name});
    Tensors with_out = inputs;
    with_out.push_back(at::empty({0}, cases.back().run(inputs).front().options()));
    add_one(cases, with_out, name + ".out", {}, true, true, false);
  }
}

}  // namespace tidemark::operators
