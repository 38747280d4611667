// A model of what PyTorch's autograd keeps alive: tensors that share memory, nodes that save
// tensors, and the engine, which runs nodes, adds up gradients and releases what was saved in the
// order of torch/csrc/autograd/engine.cpp. Tensors have a size and no values; their memory comes
// from the model of the caching allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "reference/memory/allocator.h"

namespace tidemark::reference::autograd {

struct Node;
using NodePointer = std::shared_ptr<Node>;

/// One tensor object. Views of one memory are several tensors with one storage.
struct TensorModel {
  std::shared_ptr<void> storage;  // its last owner gives the memory back; null for 0 bytes
  Amount bytes = 0;
  NodePointer made_by = {};                    // grad_fn
  std::weak_ptr<Node> accumulator = {};        // of a leaf
  std::shared_ptr<TensorModel> gradient = {};  // of a leaf: grad()
  bool consumes = false;  // of a leaf: a hook uses each gradient up as soon as it is there
};
using Tensor = std::shared_ptr<TensorModel>;
using Tensors = std::vector<Tensor>;

/// Another tensor with the same memory and without a graph.
Tensor alias(const Tensor& tensor);
/// The node that a gradient of `tensor` goes to; a leaf's accumulator, which this makes if need be.
NodePointer gradient_node(const Tensor& tensor);

/// A tensor that a node has saved for its backward.
class Saved {
 public:
  virtual ~Saved() = default;
  virtual Tensor unpack() = 0;
};

/// A node of the graph, of an operator with one differentiable output.
struct Node {
  /// Gradients of the operator's inputs, those that `wanted` says (by input), from that of its
  /// output and the tensors that it saved, in order.
  using Backward = std::function<Tensors(const Tensor& gradient, Tensors saved,
                                         const std::vector<bool>& wanted)>;
  std::int64_t number = 0;        // of ready nodes the one with the highest number runs first
  std::vector<NodePointer> next;  // by input
  std::vector<std::unique_ptr<Saved>> saved = {};
  Backward backward = {};
  Tensor variable = {};  // of an accumulator: the leaf
  /// Hooks that see the gradient before the node runs.
  std::vector<std::function<void(const Tensor&)>> hooks = {};
  /// What the engine knows of it in one of its runs.
  struct Mark {
    std::int64_t run = 0;
    int dependencies = 0;                            // gradients that have not come
    enum { unseen, unneeded, needed } end = unseen;  // leads to an end
  } mark = {};
};

/// The program's one thread of operators and its engine.
class Autograd {
 public:
  explicit Autograd(Allocator& memory) : memory_(memory) {}

  Tensor make(const Amount& amount);
  /// Makes a tensor that accounts count under another symbol than tensors made in its size later.
  Tensor make(const Amount& amount, std::string_view counted_as);
  /// An operator's node, before its output is computed: it saves `saved`, and with these tensors
  /// the nodes that made them.
  NodePointer node(const Tensors& inputs, const Tensors& saved, Node::Backward backward);
  /// Saves a tensor that the operator itself has made.
  void save_output(Node& node, const Tensor& tensor) { save(node, alias(tensor)); }

  /// Engine::execute. With `ends` their gradients are returned and nothing else is computed;
  /// without, gradients are added to the leaves.
  Tensors run(const std::vector<NodePointer>& starts, const Tensors& gradients,
              const std::vector<NodePointer>& ends, bool keep_graph);
  /// While set, saved tensors are packed by it.
  using Packer = std::function<std::unique_ptr<Saved>(const Tensor&)>;
  Packer packer;
  std::int64_t runs = 0;  // of the engine; the current one's number while it lasts
  bool running = false;   // the engine's thread is at work, not the program's
  /// Adds `gradient` to the leaf's, or makes it the leaf's.
  void accumulate(TensorModel& leaf, Tensor gradient);

 private:
  struct Task;
  void evaluate(Task& task, Node* node, Tensor gradient);
  void add(Tensor& sum, const Tensor& gradient);
  void save(Node& node, const Tensor& tensor);

  Allocator& memory_;
  std::int64_t nodes_ = 0;
};

/// block(input) with the input alone kept for the backward (cases/zero_bubble_detach/checkpoint.h):
/// a run of the engine that needs a saved tensor runs the block again up to the last tensor it
/// saves, and what it does not unpack stays as long as the node that saved it does.
Tensor checkpoint(Autograd& autograd, std::function<Tensor(const Tensor&)> block,
                  const Tensor& input);

}  // namespace tidemark::reference::autograd
