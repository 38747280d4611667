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

}  // namespace

std::vector<at::Tensor> run_backward(const edge_list& starts,
                                     const std::vector<at::Tensor>& gradients,
                                     const edge_list& ends, BackwardRun run) {
  auto& engine = Engine::get_default_engine();
  auto results = engine.execute(starts, gradients, run.keep_graph, /*create_graph=*/false,
                                run.accumulate, ends);
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
