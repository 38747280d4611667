// Recurrent networks of cuDNN. The CPU's layers compute them; backward computes the layers again,
// with autograd, from the same inputs and the same masks of dropout.
#include <torch/csrc/autograd/autograd.h>

#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

struct Network {
  std::vector<at::Tensor> weights;
  std::size_t stride;  // weights of a layer and direction
  std::int64_t mode, hidden, projected, layers;
  bool batch_first, train, bidirectional;
  double dropout;
  std::vector<std::int64_t> batch_sizes;
  RandomState random;

  bool has_biases() const { return stride >= 4; }
  bool drops() const { return train && dropout > 0 && layers > 1; }
};

struct NetworkResults {
  at::Tensor output, hy, cy;
};

// One layer. Modes are cuDNN's: ReLU, tanh, LSTM, GRU.
NetworkResults layer(const Network& n, const at::Tensor& x, const std::vector<at::Tensor>& weights,
                     const at::Tensor& hx, const at::Tensor& cx) {
  const bool packed = !n.batch_sizes.empty(), bias = n.has_biases(), both = n.bidirectional;
  const at::Tensor sizes = packed ? at::tensor(n.batch_sizes, at::kLong) : at::Tensor();
  if (n.mode == 2) {
    auto [output, hy, cy] =
        packed ? at::lstm(x, sizes, {hx, cx}, weights, bias, 1, 0.0, n.train, both)
               : at::lstm(x, {hx, cx}, weights, bias, 1, 0.0, n.train, both, n.batch_first);
    return {output, hy, cy};
  }
  const auto of = [&](auto function) -> NetworkResults {
    auto [output, hy] = packed ? function(x, sizes, hx, weights, bias, n.train, both)
                               : function(x, at::Tensor(), hx, weights, bias, n.train, both);
    return {output, hy, {}};
  };
#define LAYER(name)                                                                        \
  of([&](const at::Tensor& data, const at::Tensor& lengths, const at::Tensor& h,           \
         const std::vector<at::Tensor>& w, bool b, bool train, bool two) {                 \
    return lengths.defined() ? at::name(data, lengths, h, w, b, 1, 0.0, train, two)        \
                             : at::name(data, h, w, b, 1, 0.0, train, two, n.batch_first); \
  })
  return n.mode == 3 ? LAYER(gru) : n.mode == 1 ? LAYER(rnn_tanh) : LAYER(rnn_relu);
#undef LAYER
}

/// The weights of a layer in their shapes. Autocast gives them as columns of one buffer.
std::vector<at::Tensor> in_shape(const Network& n, std::vector<at::Tensor> weights,
                                 std::int64_t features) {
  const std::int64_t gates = n.mode == 2 ? 4 : n.mode == 3 ? 3 : 1, rows = gates * n.hidden;
  const std::int64_t state = n.projected > 0 ? n.projected : n.hidden;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t place = i % n.stride;
    const bool projects = n.projected > 0 && place + 1 == n.stride;
    weights[i] = projects     ? weights[i].reshape({n.projected, n.hidden})
                 : place == 0 ? weights[i].reshape({rows, features})
                 : place == 1 ? weights[i].reshape({rows, state})
                              : weights[i].reshape({rows});
  }
  return weights;
}

NetworkResults network_forward(const Network& n, const at::Tensor& input,
                               const std::vector<at::Tensor>& weights, const at::Tensor& hx,
                               const at::Tensor& cx) {
  const std::int64_t directions = n.bidirectional ? 2 : 1;
  const std::size_t each = n.stride * static_cast<std::size_t>(directions);
  std::vector<at::Tensor> hys, cys;
  at::Tensor x = input;
  at::Generator generator = n.drops() ? cpu_generator(n.random) : at::Generator();
  for (std::int64_t l = 0; l < n.layers; ++l) {
    const auto first =
        weights.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(l) * each);
    const NetworkResults r =
        layer(n, x, in_shape(n, {first, first + static_cast<std::ptrdiff_t>(each)}, x.size(-1)),
              hx.narrow(0, l * directions, directions),
              cx.defined() ? cx.narrow(0, l * directions, directions) : at::Tensor());
    hys.push_back(r.hy);
    if (r.cy.defined()) cys.push_back(r.cy);
    x = r.output;
    if (n.drops() && l + 1 < n.layers) {
      const at::Tensor kept =
          at::empty(x.sizes(), x.options()).bernoulli_(1 - n.dropout, generator);
      x = x * kept / (1 - n.dropout);
    }
  }
  return {x, at::cat(hys), cys.empty() ? at::Tensor() : at::cat(cys)};
}

std::vector<at::Tensor> all_accumulated(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(accumulated(tensor));
  return result;
}

// Network of the arguments `mode, hidden_size, proj_size, num_layers, batch_first, dropout, train,
// bidirectional, batch_sizes` from `first` on.
Network network(const HostCall& call, std::size_t first) {
  const auto& s = call.stack;
  return {.weights = all_accumulated(s[1].toTensorVector()),
          .stride = static_cast<std::size_t>(s[2].toInt()),
          .mode = s[first].toInt(),
          .hidden = s[first + 1].toInt(),
          .projected = s[first + 2].toInt(),
          .layers = s[first + 3].toInt(),
          .batch_first = s[first + 4].toBool(),
          .train = s[first + 6].toBool(),
          .bidirectional = s[first + 7].toBool(),
          .dropout = s[first + 5].toDouble(),
          .batch_sizes = s[first + 8].toIntVector(),
          .random = {}};
}

// The state that the masks of dropout come from: two words at the begin of cuDNN's state of dropout
// and of the reserve, which only cuDNN reads. Each call leaves another one for the next.
void put_state(const at::Tensor& memory, RandomState state) {
  const std::uint64_t words[]{state.seed, state.offset};
  TORCH_CHECK(memory.nbytes() >= sizeof words,
              "_cudnn_rnn has no room for the state of its dropout");
  std::memcpy(memory.data_ptr(), words, sizeof words);
}
at::Tensor with_state(const at::Tensor& made, RandomState state) {
  const at::Tensor memory = at::zeros(made.sizes(), at::kByte);
  put_state(memory, state);
  return memory;
}
RandomState state_in(const at::Tensor& memory) {
  std::uint64_t words[2]{};
  std::memcpy(words, memory.data_ptr(), sizeof words);
  return {words[0], words[1]};
}

// _cudnn_rnn(input, weight, weight_stride0, weight_buf, hx, cx, mode, hidden_size, proj_size,
// num_layers, batch_first, dropout, train, bidirectional, batch_sizes, dropout_state)
//   -> (output, hy, cy, reserve, weight_buf)
void rnn(HostCall& call) {
  Network n = network(call, 6);
  if (const at::Tensor state = tensor_at(call, 15); n.drops()) {
    n.random = state_in(state);
    put_state(state, {n.random.seed, n.random.offset + 1});
  }
  const NetworkResults r =
      network_forward(n, accumulated(tensor_at(call, 0)), n.weights,
                      accumulated(tensor_at(call, 4)), accumulated(tensor_at(call, 5)));
  const at::Tensor none;
  give(call, r.output, r.hy, r.cy,
       n.drops() ? with_state(call.outputs[3].toTensor(), n.random) : none, none);
}

// With autograd, as a program's own thread has it.
struct WithAutograd {
  at::AutoGradMode grad{true};
  c10::impl::ForceDispatchKeyGuard keys{c10::impl::tls_local_dispatch_key_set().included_,
                                        c10::impl::tls_local_dispatch_key_set().excluded_ -
                                            c10::autograd_dispatch_keyset -
                                            c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView)};
};

// _cudnn_rnn_backward(input, weight, weight_stride0, weight_buf, hx, cx, output, grad_output,
// grad_hy, grad_cy, mode, hidden_size, proj_size, num_layers, batch_first, dropout, train,
// bidirectional, batch_sizes, dropout_state, reserve, mask[4]) -> (dx, dhx, dcx, dweights)
void rnn_backward(HostCall& call) {
  Network n = network(call, 10);
  if (n.drops()) n.random = state_in(tensor_at(call, 20));
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.defined() ? accumulated(tensor).detach().clone().requires_grad_() : tensor;
  };
  WithAutograd autograd;
  const at::Tensor x = leaf(tensor_at(call, 0)), hx = leaf(tensor_at(call, 4)),
                   cx = leaf(tensor_at(call, 5));
  std::vector<at::Tensor> weights, inputs{x, hx};
  for (const at::Tensor& weight : n.weights) weights.push_back(leaf(weight));
  if (cx.defined()) inputs.push_back(cx);
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  const NetworkResults r = network_forward(n, x, weights, hx, cx);
  std::vector<at::Tensor> outputs, grads;
  const auto with = [&](const at::Tensor& output, const at::Tensor& grad) {
    if (!grad.defined() || !output.defined()) return;
    outputs.push_back(output);
    grads.push_back(accumulated(grad));
  };
  with(r.output, tensor_at(call, 7));
  with(r.hy, tensor_at(call, 8));
  with(r.cy, tensor_at(call, 9));
  const std::vector<at::Tensor> gradients =
      torch::autograd::grad(outputs, inputs, grads, std::nullopt, false, true);
  const auto got = [&](std::size_t i) {
    return gradients[i].defined() ? gradients[i] : at::zeros_like(inputs[i]);
  };
  c10::List<at::Tensor> dweights;
  const auto mask = call.stack[21].toBoolList();
  if (mask[3])
    for (std::size_t i = inputs.size() - weights.size(); i < inputs.size(); ++i)
      dweights.push_back(got(i).detach());
  call.stack.clear();
  call.stack.emplace_back(mask[0] ? got(0).detach() : at::Tensor());
  call.stack.emplace_back(mask[1] ? got(1).detach() : at::Tensor());
  call.stack.emplace_back(mask[2] && cx.defined() ? got(2).detach() : at::Tensor());
  call.stack.emplace_back(dweights);
}

// Its host code copies the weights into one buffer by operators, which compute by themselves.
void flatten(HostCall& call) { give(call, at::Tensor()); }

// _cudnn_init_dropout_state(dropout, train, dropout_seed, ...)
void dropout_state(HostCall& call) {
  const auto seed = static_cast<std::uint64_t>(call.stack[2].toInt());
  give(call, with_state(call.outputs[0].toTensor(), {seed, 0}));
}

}  // namespace

void add_rnn(Compositions& table) {
  table["aten::_cudnn_rnn"] = rnn;
  table["aten::_cudnn_rnn_backward"] = rnn_backward;
  table["aten::_cudnn_rnn_flatten_weight"] = flatten;
  table["aten::_cudnn_init_dropout_state"] = dropout_state;
}

}  // namespace tidemark::operators
