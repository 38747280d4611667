#include "harness/parallel/input_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <variant>

namespace tidemark {

namespace autograd = torch::autograd;

struct InputHooks::Counter {
  Count count;
  Calls calls;
  // Nodes of every tensor. Weak, because hooks of leaves outlive the graph of their call: a node of
  // a later graph may lie where one of that graph was, and must not be taken for it. A leaf's
  // accumulator comes and goes with the graphs that use it, and would hold the leaf, which holds
  // this.
  using Leaf = c10::weak_intrusive_ptr<c10::TensorImpl>;
  std::vector<std::variant<std::weak_ptr<autograd::Node>, Leaf>> producers;
  int backward = -1;  // the engine's number of it
  std::size_t expected = 0, arrived = 0;
  bool begun = false, complete = false;

  /// Null where it is gone: the engine runs no such node.
  template <class Producer>
  static std::shared_ptr<autograd::Node> node_of(const Producer& producer) {
    if (const auto* node = std::get_if<std::weak_ptr<autograd::Node>>(&producer))
      return node->lock();
    const auto leaf = std::get<Leaf>(producer).lock();
    return leaf ? autograd::impl::try_get_grad_accumulator(at::TensorBase(leaf)) : nullptr;
  }

  std::size_t expect() const {
    if (count == Count::all) return producers.size();
    std::size_t running = 0;
    const auto* wanted = autograd::get_current_graph_task_exec_info();
    const auto* reached = autograd::get_current_graph_task_nodes_in_graph();
    for (const auto& producer : producers) {
      const auto shared_node = node_of(producer);
      auto* node = shared_node.get();
      if (wanted->empty()) {
        running += reached->count(node);
      } else {
        const auto exec_info = wanted->find(node);
        running += exec_info != wanted->end() && exec_info->second.should_execute();
      }
    }
    return running;
  }

  void gradient() {
    calls.each();
    if (count == Count::all && !begun) return;
    if (const int now = autograd::get_current_graph_task_id(); now != backward) {
      backward = now;
      arrived = 0;
      expected = expect();
    }
    if (++arrived != expected) return;
    complete = true;
    calls.complete();
  }
};

struct InputHooks::Hook : autograd::FunctionPreHook {
  explicit Hook(std::shared_ptr<Counter> counter) : counter_(std::move(counter)) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    counter_->gradient();
    return gradients;
  }
  const std::shared_ptr<Counter> counter_;
};

InputHooks::InputHooks(const std::vector<at::Tensor>& tensors, Count count, Calls calls)
    : counter_(std::make_shared<Counter>(Counter{count, std::move(calls), {}})) {
  for (const auto& tensor : tensors) {
    const auto producer = autograd::impl::gradient_edge(tensor).function;
    if (tensor.is_leaf()) {
      counter_->producers.emplace_back(Counter::Leaf(tensor.getIntrusivePtr()));
    } else {
      counter_->producers.emplace_back(std::weak_ptr<autograd::Node>(producer));
    }
    // The list of hooks of a leaf belongs to the tensor; that of another tensor belongs to the node
    // that made it.
    producer->tensor_pre_hooks().push_back(std::make_unique<Hook>(counter_));
    if (tensor.is_leaf()) leaves_.push_back(tensor);
  }
}

std::function<void()> InputHooks::begin() const {
  return [counter = counter_] { counter->begun = true; };
}

bool InputHooks::complete() const { return counter_->complete; }

void InputHooks::remove() {
  for (const auto& leaf : leaves_) {
    std::erase_if(autograd::impl::hooks(leaf), [&](const auto& hook) {
      const auto* ours = dynamic_cast<const Hook*>(hook.get());
      return ours && ours->counter_ == counter_;
    });
  }
  leaves_.clear();
}

}  // namespace tidemark
