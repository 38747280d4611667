// The training step of one pipeline stage: in each round the forward passes of all microbatches in
// flight and their backward passes in the same order, then Adam; the same code for every variant.
// With main_weights every gradient is added to one in single precision as soon as it is there.
// The loss is the mean square of the stage's output, so that its gradient is what the next stage
// would send back.
//
// The stage has L Llama blocks (RMSNorm, causal attention with grouped queries, RMSNorm, SwiGLU
// MLP; no biases, no positions), tensor- and sequence-parallel. Queries, keys and values are one
// column linear, gate and up another.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <numbers>

#include "cases/numbers.h"
#include "cases/tp_buffer_reuse/attention.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "cases/tp_buffer_reuse/swiglu.h"
#include "cases/tp_buffer_reuse/tensor_parallel.h"
#include "harness/measure/recorder.h"
#include "harness/parallel/adam.h"
#include "harness/ranks/world.h"

namespace tidemark::tp_buffer_reuse {
namespace {

/// Rows [begin, begin + rows) of a rank's weight are elements [offset, ...) of the parameter
/// `name`.
struct Piece {
  std::string name;
  std::int64_t begin, rows, offset;
};

struct Weight {
  at::Tensor value;  // a leaf
  std::vector<Piece> pieces;
  bool replicated = false;  // on every rank: its gradient is summed over them
  // In single precision, if the optimizer has its own: what it updates, and the sum of gradients.
  at::Tensor main, main_gradient;
  std::shared_ptr<torch::autograd::Node> accumulator = {};  // adds to the sum

  const at::Tensor& updated() const { return main.defined() ? main : value; }
  const at::Tensor& gradient() const { return main.defined() ? main_gradient : value.grad(); }
};

class Stage {
 public:
  Stage(const Dimensions& sizes, TensorParallel& group, bool fused_glu)
      : dimensions_(sizes), group_(group), fused_glu_(fused_glu) {
    const auto& d = dimensions_;
    const auto rank = group.rank();
    // This rank's rows of each named parameter, one below the other.
    const auto split = [&](std::int64_t columns,
                           const std::vector<std::pair<std::string, std::int64_t>>& parts) {
      std::vector<Piece> pieces;
      std::int64_t rows = 0;
      for (const auto& [name, own] : parts) {
        pieces.push_back({name, rows, own, rank * own * columns});
        rows += own;
      }
      return add(rows, columns, std::move(pieces));
    };
    for (std::int64_t i = 0; i < d.layers; ++i) {
      const auto name = [&](const char* what) {
        return "layers." + std::to_string(i) + "." + what;
      };
      const auto norm = [&](const char* what) {
        auto weight = add(1, d.hidden, {{name(what), 0, 1, 0}});
        weights_.back().replicated = true;
        return weight;
      };
      Block b;
      b.first_norm = norm("attention_norm");
      b.qkv = split(d.hidden, {{name("fc_query"), d.own_heads() * d.head()},
                               {name("fc_key"), d.own_kv_heads() * d.head()},
                               {name("fc_value"), d.own_kv_heads() * d.head()}});
      b.out = split(d.hidden, {{name("fc_out"), d.own_heads() * d.head()}});
      b.second_norm = norm("mlp_norm");
      b.gate_up = split(d.hidden, {{name("fc_gate"), d.own_ffn()}, {name("fc_up"), d.own_ffn()}});
      b.down = split(d.hidden, {{name("fc_down"), d.own_ffn()}});
      blocks_.push_back(b);
    }
  }

  /// x [shard_rows, hidden] -> the same shape.
  at::Tensor forward(const at::Tensor& x) {
    auto y = x;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const UnitScope unit("layers." + std::to_string(i));
      y = block(blocks_[i], y);
    }
    return y;
  }
  std::vector<Weight>& weights() { return weights_; }

 private:
  struct Block {
    at::Tensor first_norm, qkv, out, second_norm, gate_up, down;
  };

  at::Tensor add(std::int64_t rows, std::int64_t columns, std::vector<Piece> pieces) {
    const CategoryScope category(MemoryKind::parameters);
    auto value = at::empty(
        {rows, columns},
        at::TensorOptions().dtype(dimensions_.bf16 ? at::kBFloat16 : at::kFloat).device(at::kCUDA));
    value.set_requires_grad(true);
    weights_.push_back({value, std::move(pieces)});
    if (dimensions_.main_weights) add_main(weights_.back());
    return value;
  }

  static void add_main(Weight& weight) {
    const auto type = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA);
    {
      const CategoryScope category(MemoryKind::optimizer_state);
      weight.main = at::empty(weight.value.sizes(), type);
    }
    const CategoryScope category(MemoryKind::gradients);
    weight.main_gradient = at::zeros(weight.value.sizes(), type);
    weight.accumulator = torch::autograd::impl::grad_accumulator(weight.value);
    weight.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [leaf = weight.value, sum = weight.main_gradient](const auto& outputs, const auto&) {
          const at::NoGradGuard no_grad;
          sum.add_(leaf.grad());
          leaf.mutable_grad().reset();
          return outputs;
        }));
  }

  at::Tensor block(const Block& b, const at::Tensor& x) {
    const auto& d = dimensions_;
    const auto norm = [&](const at::Tensor& in, const at::Tensor& weight) {
      return at::rms_norm(in, {d.hidden}, weight.view({d.hidden}), 1e-5);
    };
    const AttentionShape shape{.sequence = d.sequence,
                               .batch = d.batch,
                               .heads = d.own_heads(),
                               .kv_heads = d.own_kv_heads(),
                               .head = d.head()};
    const auto merged = group_.column_linear(norm(x, b.first_norm), b.qkv);
    const auto attended = causal_attention(merged, shape);
    const auto middle = x + group_.row_linear(attended, b.out);
    const auto wide = group_.column_linear(norm(middle, b.second_norm), b.gate_up);
    return middle + group_.row_linear(fused_glu_ ? fused_swiglu(wide) : swiglu(wide), b.down);
  }

  const Dimensions dimensions_;
  TensorParallel& group_;
  const bool fused_glu_;
  std::vector<Weight> weights_;
  std::vector<Block> blocks_;
};

class Training final : public Program {
 public:
  Training(const Trial& trial, const Policy& policy, const World& world)
      : trial_(trial),
        dimensions_(trial),
        communicator_(world.size() > 1 ? std::make_unique<Communicator>(world) : nullptr),
        group_(communicator_.get(), policy.gather),
        stage_(dimensions_, group_, policy.fused_glu),
        adam_(dimensions_.cosine ? AdamOptions{.beta2 = 0.95, .decay = 0.01} : AdamOptions{}) {
    group_.warm_up(dimensions_.rows(), dimensions_.hidden,
                   dimensions_.bf16 ? at::kBFloat16 : at::kFloat);
    {
      const CategoryScope category(MemoryKind::outputs);
      loss_ = at::empty({1}, at::TensorOptions().dtype(at::kFloat).device(at::kCUDA));
      if (dimensions_.clip > 0) norm_ = at::empty({}, loss_.options());
    }
    if (trial.mode == Mode::shapes) return;
    for (auto& weight : stage_.weights())
      for (const auto& piece : weight.pieces)
        fill(trial.seed, piece.name, piece.offset,
             weight.updated().detach().narrow(0, piece.begin, piece.rows));
    round_weights();
  }

  void step(int index, Recorder& recorder) override {
    for (std::int64_t round = 0; round < dimensions_.rounds; ++round) {
      const auto suffix = dimensions_.suffix(round);
      recorder.phase("forward" + suffix);
      if (round == 0) loss_.zero_();
      std::vector<Microbatch> in_flight;
      for (std::int64_t i = 0; i < dimensions_.in_flight; ++i)
        in_flight.push_back(forward(index, round * dimensions_.in_flight + i));

      recorder.phase("backward" + suffix);
      const CategoryScope category(MemoryKind::gradients);
      for (auto& microbatch : in_flight) {
        backward(microbatch);
        microbatch = {};
      }
    }
    for (auto& weight : stage_.weights()) {
      if (weight.replicated) all_reduce(weight.gradient());
    }
    all_reduce(loss_);
    recorder.loss(loss_);

    recorder.phase("optimizer");
    if (dimensions_.clip > 0) clip();
    recorder.gradients(shards(true));
    std::vector<at::Tensor> values, gradients;
    for (auto& weight : stage_.weights()) {
      values.push_back(weight.updated());
      gradients.push_back(weight.gradient());
    }
    if (dimensions_.cosine) adam_.set_rate(cosine_rate(index));
    adam_.step(values, gradients);
    round_weights();

    recorder.phase("zero_grad");
    gradients.clear();
    for (auto& weight : stage_.weights()) {
      weight.value.mutable_grad().reset();
      if (weight.main.defined()) weight.main_gradient.zero_();
    }
    if (communicator_) recorder.collectives(communicator_->calls(), communicator_->bytes());
  }

  std::vector<Shard> parameters() override { return shards(false); }

 private:
  struct Microbatch {
    at::Tensor input, output;
  };

  /// Elements of a step's outputs, over all microbatches and ranks.
  double outputs() const {
    const auto& d = dimensions_;
    return static_cast<double>(d.microbatches() * d.rows() * d.hidden);
  }

  void all_reduce(const at::Tensor& tensor) {
    if (communicator_) communicator_->all_reduce(tensor, Reduction::sum, {});
  }

  /// Scales the gradients of all ranks down to the norm that they may have together. The host does
  /// not learn it.
  void clip() {
    const at::NoGradGuard no_grad;
    const CategoryScope category(MemoryKind::optimizer_temporaries);
    norm_.zero_();
    for (auto& weight : stage_.weights()) {
      if (weight.replicated && group_.rank() > 0) continue;  // every rank has the same
      const auto flat = weight.gradient().view(-1);
      norm_.add_(at::dot(flat, flat));
    }
    all_reduce(norm_);
    norm_.sqrt_().add_(1e-6).reciprocal_().mul_(dimensions_.clip).clamp_max_(1);
    for (auto& weight : stage_.weights()) weight.gradient().mul_(norm_);
  }

  /// Linear in the first two steps, then along half a period of a cosine in 198.
  static double cosine_rate(int step) {
    constexpr double kHighest = 3e-4, kLowest = 1e-5;
    if (step < 2) return kHighest * (step + 1) / 2;
    const double part = std::min(1.0, (step - 2) / 198.0);
    return kLowest + (kHighest - kLowest) / 2 * (1 + std::cos(std::numbers::pi * part));
  }

  /// Parameters from the optimizer's own weights, if it has any.
  void round_weights() {
    const at::NoGradGuard no_grad;
    for (auto& weight : stage_.weights())
      if (weight.main.defined()) weight.value.detach().copy_(weight.main);
  }

  Microbatch forward(int step, std::int64_t microbatch) {
    const auto& d = dimensions_;
    const auto name = "input." + std::to_string(step) + "." + std::to_string(microbatch);
    auto x = batch(trial_, name, {d.shard_rows(), d.hidden}, group_.rank(),
                   d.bf16 ? at::kBFloat16 : at::kFloat);
    x.set_requires_grad(true);  // from the stage before, which waits for its gradient
    auto y = stage_.forward(x);
    const at::NoGradGuard no_grad;
    const auto flat = y.view(-1);
    loss_.add_(at::dot(flat, flat), 1.0 / outputs());
    return {x, y};
  }

  void backward(const Microbatch& microbatch) {
    at::Tensor gradient;
    {
      const at::NoGradGuard no_grad;
      gradient = microbatch.output * (2.0 / outputs());
    }
    torch::autograd::backward({microbatch.output}, {gradient});
  }

  std::vector<Shard> shards(bool gradients) {
    std::vector<Shard> all;
    for (auto& weight : stage_.weights()) {
      const auto tensor = gradients ? weight.gradient() : weight.updated().detach();
      for (const auto& piece : weight.pieces)
        all.push_back({piece.name, piece.offset, tensor.narrow(0, piece.begin, piece.rows)});
    }
    return all;
  }

  const Trial& trial_;
  const Dimensions dimensions_;
  std::unique_ptr<Communicator> communicator_;
  TensorParallel group_;
  Stage stage_;
  Adam adam_;
  at::Tensor loss_, norm_;
};

}  // namespace

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world) {
  return std::make_unique<Training>(trial, policy, world);
}

}  // namespace tidemark::tp_buffer_reuse
