#include "harness/parallel/run_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

namespace tidemark {
namespace {

using namespace torch::autograd;

struct Nothing final : Node {
  variable_list apply(variable_list&&) override { return {}; }
};

/// Starts a run at several nodes. The engine's own root works in the caller's thread, beside which
/// the device's thread may or may not take the first start before it sees the others; this one
/// works in the device's thread, so the order is always the engine's.
struct Starts final : Node {
  explicit Starts(variable_list g) : gradients(std::move(g)) {}
  variable_list apply(variable_list&&) override { return std::move(gradients); }
  variable_list gradients;
};

}  // namespace

std::vector<at::Tensor> run_backward(const edge_list& starts,
                                     const std::vector<at::Tensor>& gradients,
                                     const edge_list& ends, BackwardRun run) {
  auto& engine = Engine::get_default_engine();
  auto roots = starts;
  auto root_gradients = gradients;
  if (starts.size() > 1) {
    const auto all = std::make_shared<Starts>(gradients);
    all->set_next_edges(edge_list(starts));
    all->add_input_metadata(gradients.front());
    roots = {Edge(all, 0)};
    root_gradients = {gradients.front()};
  }
  auto results = engine.execute(roots, root_gradients, run.keep_graph, /*create_graph=*/false,
                                run.accumulate, ends);
  roots.clear();
  if (!gradients.empty()) release_last_run(gradients.front());
  return results;
}

void release_last_run(const at::Tensor& gradient) {
  if (!gradient.is_cuda()) return;
  const auto empty = at::empty({0}, gradient.options());
  auto node = std::make_shared<Nothing>();
  node->add_input_metadata(empty);
  Engine::get_default_engine().execute({Edge(node, 0)}, {empty}, false, false,
                                       /*accumulate_grad=*/true, {});
}

}  // namespace tidemark
