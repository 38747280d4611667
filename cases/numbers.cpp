#include "cases/numbers.h"

#include <ATen/ATen.h>

#include <cmath>

#include "harness/measure/recorder.h"
#include "reference/deterministic.h"
#include "reference/multi_mlp.h"

namespace tidemark {

void fill(std::uint64_t seed, const std::string& name, std::int64_t offset,
          const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  auto host = at::empty({tensor.numel()}, at::TensorOptions().dtype(at::kDouble));
  reference::fill(seed, name, offset,
                  {host.mutable_data_ptr<double>(), static_cast<std::size_t>(tensor.numel())});
  tensor.copy_(host.to(tensor.scalar_type()).pin_memory().view(tensor.sizes()),
               /*non_blocking=*/true);
}

at::Tensor batch(const Trial& trial, const std::string& name, at::IntArrayRef size, int rank,
                 at::ScalarType type) {
  const CategoryScope category("inputs");
  auto x = at::empty(size, at::TensorOptions().dtype(type).device(at::kCUDA));
  if (trial.mode == Mode::math) fill(trial.seed, name, rank * x.numel(), x);
  return x;
}

at::Tensor Parameters::add(const Trial& trial, const std::string& name, at::IntArrayRef size,
                           at::ScalarType type) {
  const CategoryScope category("parameters");
  names_.push_back(name);
  values.push_back(at::empty(size, at::TensorOptions().dtype(type).device(at::kCUDA)));
  if (trial.mode == Mode::math) fill(trial.seed, name, 0, values.back());
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

std::vector<Shard> whole_tensors(const std::vector<reference::Tensor>& tensors) {
  std::vector<Shard> all;
  for (const auto& t : tensors) all.push_back({t.name, 0, t.values});
  return all;
}

}  // namespace

Oracle oracle_of(const reference::Trained& result) {
  return {.loss = result.loss,
          .gradients = whole_tensors(result.gradients),
          .parameters = whole_tensors(result.parameters),
          .loss_condition = result.condition,
          .parameter_condition = result.parameter_condition,
          .why = {}};
}

Rounding rounding(bool single, std::int64_t depth, const std::string& depth_text,
                  std::int64_t terms, const std::string& terms_text) {
  const double sums = std::ldexp(std::sqrt(static_cast<double>(terms)), -24);
  const double stored = single ? 0 : 2 * std::ldexp(1, -8);
  const std::string path = " on a path forth and back, u = 2^-24";
  return {static_cast<double>(depth) * (stored + sums),
          single ? "u (" + depth_text + ") sqrt(" + terms_text + "): rounding of the sums" + path
                 : "(" + depth_text + ") (2 v + u sqrt(" + terms_text +
                       ")): rounding of operands and results to bf16 and of the sums in fp32" +
                       path + ", v = 2^-8"};
}

Oracle multi_mlp_oracle(const Trial& trial, std::int64_t rows, bool single) {
  const auto result = reference::train({.layers = trial["layers"],
                                        .hidden = trial["hidden"],
                                        .rows = rows,
                                        .steps = trial.steps,
                                        .seed = trial.seed});
  Oracle oracle = oracle_of(result);
  // A path through the model has 2 products a block and two norms, and comes back. The loss is a
  // mean, and its terms cancel; the reference knows by how much.
  const auto [tolerance, why] =
      rounding(single, 4 * trial["layers"] + 4, "4 layers + 4", trial["hidden"], "hidden");
  oracle.tolerance = tolerance;
  oracle.why = why +
               "; of the loss times mean |y| / |mean y| of the output y, by which it cancels" +
               kAfterAdam;
  return oracle;
}

std::string why_norms_are_too_narrow(const Trial& trial) {
  if (trial.mode != Mode::math || trial["hidden"] > 2) return "";
  return "hidden=" + std::to_string(trial["hidden"]) +
         ": a norm of so few elements passes on no gradient but what its epsilon and rounding "
         "leave, so numbers prove nothing; set hidden=3 or more, or --mode shapes";
}

}  // namespace tidemark
