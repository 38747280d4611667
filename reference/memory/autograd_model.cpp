#include "reference/memory/autograd_model.h"

#include <limits>
#include <unordered_map>
#include <utility>

namespace tidemark::reference::autograd {
namespace {

class Plain final : public Saved {
 public:
  explicit Plain(Tensor tensor) : tensor_(std::move(tensor)) {}
  Tensor unpack() override { return tensor_; }

 private:
  Tensor tensor_;
};

}  // namespace

Tensor alias(const Tensor& tensor) {
  return std::make_shared<TensorModel>(TensorModel{tensor->storage, tensor->bytes});
}

NodePointer gradient_node(const Tensor& tensor) {
  if (tensor->made_by) return tensor->made_by;
  if (auto node = tensor->accumulator.lock()) return node;
  auto node = std::make_shared<Node>();
  node->number = std::numeric_limits<std::int64_t>::max();
  node->variable = tensor;
  tensor->accumulator = node;
  return node;
}

Tensor Autograd::make(const Amount& amount) { return make(amount, amount.symbol); }

Tensor Autograd::make(const Amount& amount, std::string_view counted_as) {
  auto* memory = &memory_;
  std::shared_ptr<Allocator::Block> storage(memory_.allocate({amount.bytes, counted_as}, 0),
                                            [memory](Allocator::Block* b) { memory->free(b); });
  return std::make_shared<TensorModel>(TensorModel{std::move(storage), amount});
}

NodePointer Autograd::node(const Tensors& inputs, const Tensors& saved, Node::Backward backward) {
  auto node = std::make_shared<Node>();
  node->number = ++nodes_;
  for (const auto& input : inputs) node->next.push_back(gradient_node(input));
  node->backward = std::move(backward);
  for (const auto& tensor : saved) save(*node, tensor);
  return node;
}

void Autograd::save(Node& node, const Tensor& tensor) {
  node.saved.push_back(packer ? packer(tensor) : std::make_unique<Plain>(tensor));
}

void Autograd::accumulate(TensorModel& leaf, Tensor gradient) {
  if (leaf.gradient) return;  // in place
  leaf.gradient = gradient.use_count() == 1 ? std::move(gradient) : make(gradient->bytes);
  if (leaf.consumes) leaf.gradient.reset();
}

// A buffer that nothing else refers to is added to in place.
void Autograd::add(Tensor& sum, const Tensor& gradient) {
  if (!sum)
    sum = gradient;
  else if (sum.use_count() > 1 || sum->storage.use_count() > 1)
    sum = make(sum->bytes);
}

struct Autograd::Task {
  bool keep_graph;
  std::int64_t run;
  bool everything;                                  // there are no ends: every node is needed
  std::unordered_map<Node*, Tensor> captured = {};  // of the ends
  std::unordered_map<Node*, Tensor> waiting = {};   // nodes that lack a gradient
  std::multimap<std::int64_t, std::pair<NodePointer, Tensor>, std::greater<>> ready = {};

  Node::Mark& mark(Node* node) const {
    if (node->mark.run != run) node->mark = {.run = run};
    return node->mark;
  }
  bool executes(Node* node) const { return everything || mark(node).end == Node::Mark::needed; }
  void count(Node* node) {
    for (const auto& next : node->next)
      if (next && ++mark(next.get()).dependencies == 1) count(next.get());
  }
  bool need(Node* node) {
    if (const auto known = mark(node).end; known != Node::Mark::unseen)
      return known == Node::Mark::needed;
    bool any = false;
    for (const auto& next : node->next) any = (next && need(next.get())) || any;
    mark(node).end = any ? Node::Mark::needed : Node::Mark::unneeded;
    return any;
  }
};

void Autograd::evaluate(Task& task, Node* node, Tensor gradient) {
  if (const auto end = task.captured.find(node); end != task.captured.end()) {
    end->second = std::move(gradient);
    return;
  }
  if (node->variable) return accumulate(*node->variable, std::move(gradient));
  for (const auto& hook : node->hooks) hook(gradient);
  std::vector<bool> wanted;
  for (const auto& next : node->next) wanted.push_back(next && task.executes(next.get()));
  Tensors saved;
  for (const auto& one : node->saved) saved.push_back(one->unpack());
  Tensors outputs = node->backward(gradient, std::move(saved), wanted);
  gradient.reset();
  if (!task.keep_graph) node->saved.clear();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NodePointer next = node->next[i];
    if (!next) continue;
    const bool ready = --task.mark(next.get()).dependencies == 0;
    if (!task.executes(next.get())) continue;
    Tensor& buffer = task.waiting[next.get()];
    if (outputs[i]) {
      if (!buffer)
        buffer = std::move(outputs[i]);
      else
        add(buffer, outputs[i]);
    }
    if (!ready) continue;
    task.ready.emplace(next->number, std::pair(next, std::move(buffer)));
    task.waiting.erase(next.get());
  }
}

Tensors Autograd::run(const std::vector<NodePointer>& starts, const Tensors& gradients,
                      const std::vector<NodePointer>& ends, bool keep_graph) {
  ++runs;
  running = true;
  Task task{.keep_graph = keep_graph, .run = runs, .everything = ends.empty()};
  for (const auto& start : starts) task.count(start.get());
  for (const auto& end : ends) {
    task.captured[end.get()];
    task.mark(end.get()).end = Node::Mark::needed;
  }
  for (const auto& start : starts)
    if (!ends.empty()) task.need(start.get());
  for (std::size_t i = 0; i < starts.size(); ++i)
    task.ready.emplace(starts[i]->number, std::pair(starts[i], gradients[i]));
  while (!task.ready.empty()) {
    auto [node, gradient] = std::move(task.ready.extract(task.ready.begin()).mapped());
    evaluate(task, node.get(), std::move(gradient));
  }
  running = false;
  Tensors results;
  for (const auto& end : ends) results.push_back(std::move(task.captured.at(end.get())));
  return results;
}

namespace {

/// Ends a block's second run, at the last tensor that it saves.
struct NothingMoreToSave {};

/// Stands in for one saved tensor of a checkpointed block.
struct Place {
  std::map<std::int64_t, Tensor> again;  // by run of the engine
};

struct Frame {
  std::function<Tensor(const Tensor&)> block;
  Tensor input;
  std::vector<std::weak_ptr<Place>> places = {};
  std::set<std::int64_t> done = {};  // runs of the engine

  void run_again(Autograd& autograd) {
    std::size_t index = 0;
    const auto outer = std::exchange(autograd.packer, [&](const Tensor& tensor) {
      Tensor kept = alias(tensor);
      if (const auto place = places[index].lock()) place->again[autograd.runs] = kept;
      if (++index == places.size()) throw NothingMoreToSave{};
      return std::make_unique<Plain>(std::move(kept));
    });
    try {
      block(alias(input));
    } catch (const NothingMoreToSave&) {
    }
    autograd.packer = outer;
    done.insert(autograd.runs);
  }
};

class FromPlace final : public Saved {
 public:
  FromPlace(Autograd& autograd, std::shared_ptr<Frame> frame, NodePointer made_by)
      : autograd_(autograd), frame_(std::move(frame)), made_by_(std::move(made_by)) {
    frame_->places.push_back(place_);
  }
  Tensor unpack() override {
    if (!frame_->done.contains(autograd_.runs)) frame_->run_again(autograd_);
    return std::move(place_->again.extract(autograd_.runs).mapped());
  }

 private:
  Autograd& autograd_;
  std::shared_ptr<Frame> frame_;
  NodePointer made_by_;
  std::shared_ptr<Place> place_ = std::make_shared<Place>();
};

}  // namespace

Tensor checkpoint(Autograd& autograd, std::function<Tensor(const Tensor&)> block,
                  const Tensor& input) {
  auto frame = std::make_shared<Frame>(std::move(block), alias(input));
  const auto outer = std::exchange(autograd.packer, [&autograd, frame](const Tensor& tensor) {
    return std::make_unique<FromPlace>(autograd, frame, tensor->made_by);
  });
  Tensor output = frame->block(input);
  autograd.packer = outer;
  return output;
}

}  // namespace tidemark::reference::autograd
