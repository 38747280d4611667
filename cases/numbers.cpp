#include "cases/numbers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "harness/measure/recorder.h"
#include "reference/deterministic.h"
#include "reference/multi_mlp.h"

namespace tidemark {

void fill(std::uint64_t seed, const std::string& name, std::int64_t offset,
          const at::Tensor& tensor, double step) {
  if (tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  auto host = at::empty({tensor.numel()}, at::TensorOptions().dtype(at::kDouble));
  reference::fill(seed, name, offset,
                  {host.mutable_data_ptr<double>(), static_cast<std::size_t>(tensor.numel())},
                  step);
  tensor.copy_(host.to(tensor.scalar_type()).pin_memory().view(tensor.sizes()),
               /*non_blocking=*/true);
}

at::Tensor batch(const Trial& trial, const std::string& name, at::IntArrayRef size, int rank,
                 at::ScalarType type) {
  const CategoryScope category(MemoryKind::inputs);
  auto x = at::empty(size, at::TensorOptions().dtype(type).device(at::kCUDA));
  if (trial.mode == Mode::math) fill(trial.seed, name, rank * x.numel(), x);
  return x;
}

at::Tensor Parameters::add(const Trial& trial, const std::string& name, at::IntArrayRef size,
                           at::ScalarType type, double step) {
  const CategoryScope category(MemoryKind::parameters);
  names_.push_back(name);
  values.push_back(at::empty(size, at::TensorOptions().dtype(type).device(at::kCUDA)));
  if (trial.mode == Mode::math) fill(trial.seed, name, 0, values.back(), step);
  return values.back().requires_grad_(true);
}

std::vector<at::Tensor> Parameters::gradients() const {
  std::vector<at::Tensor> all;
  for (const auto& p : values) all.push_back(p.grad());
  return all;
}

std::vector<Shard> Parameters::named(const std::vector<at::Tensor>& each) const {
  std::vector<Shard> all;
  for (std::size_t k = 0; k < each.size(); ++k) all.push_back({names_[k], 0, each[k]});
  return all;
}

namespace {

struct MeanSquareError : torch::autograd::Function<MeanSquareError> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& output,
                            const at::Tensor& target) {
    at::Tensor apart = at::sub(output, target), loss = at::empty({}, output.options());
    // A product of a row and a column, as the sum of squares by a reduction would take memory
    // beside them.
    at::Tensor sum = loss.view({1, 1});
    at::mm_out(sum, apart.view({1, -1}), apart.view({-1, 1}));
    const auto share = 1 / static_cast<double>(apart.numel());
    loss.mul_(share);
    apart.mul_(2 * share);
    ctx->save_for_backward({apart});
    return loss;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list gradients) {
    return {ctx->get_saved_variables()[0].mul_(gradients[0]), at::Tensor()};
  }
};

std::vector<Shard> whole_tensors(const std::vector<reference::Tensor>& tensors) {
  std::vector<Shard> all;
  for (const auto& t : tensors) all.push_back({t.name, 0, t.values});
  return all;
}

}  // namespace

at::Tensor mean_square_error(const at::Tensor& output, const at::Tensor& target) {
  return MeanSquareError::apply(output, target.detach());
}

Oracle oracle_of(const reference::Trained& exact, const reference::Precision& precision,
                 const std::function<reference::Trained(reference::Noise)>& train) {
  reference::Spread spread = reference::spread_of(exact, precision, train);
  Oracle oracle{.loss = exact.loss,
                .gradients = whole_tensors(exact.gradients),
                .parameters = whole_tensors(exact.parameters),
                .loss_tolerance = std::move(spread.loss),
                .gradient_tolerance = std::move(spread.gradients),
                .parameter_tolerance = std::move(spread.parameters),
                .plain_parameter_tolerance = std::move(spread.plain)};
  for (std::size_t k = 0; k < exact.scales.size(); ++k)
    oracle.parameter_scales.push_back({exact.parameters[k].name, 0, exact.scales[k]});
  oracle.why = fmt::format(
      "{} times what {} trainings in double precision are off by in which every operator errs as "
      "{} does (cases/README.md, \"Tolerances\")",
      reference::kMargin, reference::kDraws, precision.activations > 0 ? "bf16" : "fp32");
  return oracle;
}

reference::Precision precision_of(const Trial& trial, std::int64_t activations,
                                  std::int64_t parameters, std::int64_t microbatches) {
  const auto stored = [](std::int64_t bytes) { return bytes == 2 ? reference::kBfloat16 : 0; };
  const auto roundings = static_cast<double>(2 + 2 * microbatches + trial.ranks);
  return {.activations = stored(activations),
          .parameters = stored(parameters),
          .reported = roundings * std::max(stored(activations), reference::kSingle)};
}

Oracle multi_mlp_oracle(const Trial& trial, std::int64_t rows,
                        const reference::Precision& precision) {
  const reference::MultiMlpRun run{.layers = trial["layers"],
                                   .hidden = trial["hidden"],
                                   .rows = rows,
                                   .steps = trial.steps,
                                   .seed = trial.seed};
  return oracle_of(reference::train(run), precision,
                   [&](reference::Noise noise) { return reference::train(run, std::move(noise)); });
}

double multi_mlp_step(const Trial& trial, const std::string& name) {
  if (name.find("norm") != std::string::npos) return 0;
  return reference::multi_mlp_step(trial["layers"], trial["hidden"],
                                   name.find("fc2") != std::string::npos);
}

std::string why_too_narrow(const Trial& trial) {
  const auto precision = trial.params.find("precision");
  const bool rounds = precision != trial.params.end() && precision->second != 0;
  const std::int64_t least = rounds ? 16 : 3;
  if (trial.mode != Mode::math || trial["hidden"] >= least) return "";
  return fmt::format(
      "hidden={}: {}, so numbers prove nothing; set hidden={} or more, or --mode shapes",
      trial["hidden"],
      rounds ? "the rounding of so few numbers in bf16 does not average out"
             : "a norm of so few elements passes on no gradient but what its epsilon "
               "and rounding leave",
      least);
}

}  // namespace tidemark
