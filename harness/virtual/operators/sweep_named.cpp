// Calls of operators by name: of tensors alone, with the defaults of all other arguments.
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <stdexcept>

#include "harness/virtual/operators/sweep.h"

namespace tidemark::operators {
namespace {

bool is_tensor(const c10::Argument& argument) {
  return c10::TensorType::get()->isSubtypeOf(*argument.type());
}

// A call needs so many tensors, with `out` one more to write into, and nothing else.
bool takes(const std::vector<c10::Argument>& arguments, std::size_t tensors, bool out) {
  if (arguments.size() < tensors + out || arguments.back().is_out() != out) return false;
  const auto first = arguments.begin(), rest = first + static_cast<std::ptrdiff_t>(tensors);
  return std::all_of(first, rest, is_tensor) &&
         std::all_of(rest, arguments.end() - out,
                     [](const c10::Argument& one) { return one.default_value().has_value(); });
}

// Chooses the overload with the fewest arguments, as C++ does.
c10::OperatorHandle overload(const std::string& name, std::size_t tensors, bool out) {
  std::optional<c10::OperatorHandle> found;
  const auto size = [](const c10::OperatorHandle& op) { return op.schema().arguments().size(); };
  for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames()) {
    if (each.name != "aten::" + name) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(each);
    if (op && takes(op->schema().arguments(), tensors, out) && (!found || size(*op) < size(*found)))
      found = op;
  }
  if (!found) throw std::logic_error("no operator " + name + " of these tensors");
  return *found;
}

Tensors call(const c10::OperatorHandle& op, const Tensors& inputs) {
  torch::jit::Stack stack;
  auto next = inputs.begin();
  for (const c10::Argument& argument : op.schema().arguments()) {
    const bool given =
        argument.is_out() || inputs.end() - next > op.schema().arguments().back().is_out();
    stack.push_back(given ? c10::IValue(*next++) : *argument.default_value());
  }
  op.callBoxed(stack);
  Tensors results;
  for (const c10::IValue& result : stack) results.push_back(result.toTensor());
  return results;
}

void add_one(std::vector<Case>& cases, const Tensors& inputs, const std::string& label, bool out,
             bool values, bool vary) {
  const auto op = overload(label.substr(0, label.find('.')), inputs.size() - out, out);
  cases.push_back({label, inputs, [op](const Tensors& t) { return call(op, t); }, values, vary});
}

}  // namespace

void add_named(std::vector<Case>& cases, const Tensors& inputs,
               const std::vector<std::string>& labels, bool values, bool vary) {
  for (const std::string& label : labels) add_one(cases, inputs, label, false, values, vary);
}

void add_forms(std::vector<Case>& cases, const Tensors& inputs,
               const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    add_named(cases, inputs, {name + "_", name});
    Tensors with_out = inputs;
    with_out.push_back(at::empty({0}, cases.back().run(inputs).front().options()));
    add_one(cases, with_out, name + ".out", true, true, false);
  }
}

}  // namespace tidemark::operators
