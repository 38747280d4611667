// Recurrent networks, the interface of cuDNN 8 and 9.
#include <algorithm>
#include <numeric>

#include "harness/virtual/cudnn/descriptors.h"

namespace tidemark::cudnn {
namespace {

enum Cell { relu = 0, tanh = 1, lstm = 2, gru = 3 };

struct Rnn {
  int cell = tanh, bias_mode = 2, directions = 1, type = f32, math_type = 0;
  std::int64_t input = 0, hidden = 0, projected = 0, layers = 0;
  bool drops = false;

  int gates() const { return cell == lstm ? 4 : cell == gru ? 3 : 1; }
  std::int64_t output() const { return projected ? projected : hidden; }
  std::int64_t pseudo_layers() const { return layers * directions; }
  bool has_biases() const { return bias_mode != 0; }
  std::int64_t inputs_of(std::int64_t pseudo_layer) const {
    return pseudo_layer < directions ? input : directions * output();
  }
  /// Elements of all matrices of a layer and direction.
  std::int64_t matrices(std::int64_t pseudo_layer) const {
    return gates() * hidden * (inputs_of(pseudo_layer) + output()) +
           (projected ? projected * hidden : 0);
  }
  std::int64_t biases() const {
    return has_biases() ? (bias_mode == 2 ? 2 : 1) * gates() * hidden : 0;
  }
  /// Elements of the matrices of the first `until` layers and directions: those of the first layer
  /// read the input, all others an output.
  std::int64_t all_matrices(std::int64_t until) const {
    const std::int64_t first = std::min<std::int64_t>(until, directions);
    return first * matrices(0) + (until - first) * matrices(directions);
  }
  std::size_t weight_bytes() const {
    return static_cast<std::size_t>(all_matrices(pseudo_layers()) + pseudo_layers() * biases()) *
           bytes_of(type);
  }
};

struct Sequences {
  int type = f32;
  std::int64_t longest = 0, batch = 0, vector = 0, steps = 0;  // steps: of all sequences together
};

// Backward needs of each direction, step and sequence: of a layer an LSTM's four gates and its
// cell, or six vectors of a GRU; the outputs between layers; a bit for each output that dropout may
// drop. Recorded on an H100 with cuDNN 9.19: 379 calls of LSTMs and one of a GRU are this to the
// byte (reports/measured/h100-80g). Of a plain network, and of a projection, the gates and the
// output.
std::size_t reserve_of(const Rnn& rnn, const Sequences& x) {
  const std::int64_t rows = x.longest * x.batch, between = rnn.layers - 1;
  if (rnn.projected > 0 || (rnn.cell != lstm && rnn.cell != gru))
    return static_cast<std::size_t>(rnn.pseudo_layers() * rows *
                                    (rnn.gates() * rnn.hidden + rnn.output())) *
           bytes_of(rnn.type);
  const auto rounded = [](std::int64_t bytes) { return (bytes + 31) / 32 * 32; };
  const std::int64_t vector = rnn.directions * rows * rnn.hidden;  // of one step after the other
  const auto element = static_cast<std::int64_t>(bytes_of(rnn.type));
  const std::int64_t masks = rnn.drops ? rnn.directions * rounded((vector + 7) / 8) : 0;
  return static_cast<std::size_t>(
      rounded(rnn.layers * (rnn.cell == lstm ? 5 : 6) * vector * element) +
      rounded(between * vector * element) + between * masks + 256);
}

// 8 MiB for each layer and direction, a copy of the weights, and the gates and two more vectors of
// every step (in both directions three vectors more): the smallest of what was recorded on an H100.
std::size_t workspace_of(const Rnn& rnn, const Sequences& x) {
  const std::int64_t vectors = rnn.directions * (rnn.gates() + 2) + (rnn.directions > 1 ? 3 : 0);
  return (static_cast<std::size_t>(rnn.pseudo_layers()) << 23) + rnn.weight_bytes() +
         static_cast<std::size_t>(x.longest * x.batch * rnn.hidden * vectors) * bytes_of(rnn.type);
}

// Two flops for each weight, step and sequence.
Status step(const Handle* handle, const char* name, const Rnn* rnn, const Sequences* x,
            double times) {
  if (!made(rnn) || !made(x))
    return fail(null_pointer, "a descriptor of a recurrent network is null or none of cuDNN's");
  if (x->vector != rnn->input)
    return fail(shape_mismatch, "the input has " + std::to_string(x->vector) +
                                    " features, and the network takes " +
                                    std::to_string(rnn->input));
  const auto weights = static_cast<double>(rnn->all_matrices(rnn->pseudo_layers()));
  return run(handle, name,
             {.flops = times * 2 * weights * static_cast<double>(x->steps),
              .number = number_of(rnn->type, rnn->math_type != 3 && capability() >= 80),
              .bytes = times * static_cast<double>(rnn->weight_bytes() + reserve_of(*rnn, *x))});
}

void place(Shape* shape, void** address, int type, std::int64_t rows, std::int64_t columns,
           const void* begin, std::int64_t offset) {
  const int r = static_cast<int>(rows), c = static_cast<int>(columns);
  if (made(shape))
    *shape = {
        .type = type, .sizes = {1, r, c}, .strides = {static_cast<int>(rows * columns), c, 1}};
  const auto bytes =
      static_cast<std::ptrdiff_t>(offset) * static_cast<std::ptrdiff_t>(bytes_of(type));
  if (address) *address = static_cast<char*>(const_cast<void*>(begin)) + bytes;
}

}  // namespace
}  // namespace tidemark::cudnn

using namespace tidemark::cudnn;

KIND(RNN, Rnn)
KIND(RNNData, Sequences)

CUDNN int cudnnSetRNNDescriptor_v8(Rnn* rnn, int, int cell, int bias_mode, int direction,
                                   int input_mode, int type, int, int math_type, std::int32_t input,
                                   std::int32_t hidden, std::int32_t projected, std::int32_t layers,
                                   const Dropout* dropout, std::uint32_t) {
  if (!made(rnn))
    return fail(null_pointer, "the descriptor of a recurrent network is null or none of cuDNN's");
  if (cell < relu || cell > gru || input_mode != 0 || bytes_of(type) == 0 || bias_mode < 0 ||
      bias_mode > 3 || direction < 0 || direction > 1 || math_type < 0 || math_type > 3)
    return refuse(not_supported, "a recurrent network of this cell, mode or type");
  constexpr std::int32_t widest = 1 << 20, deepest = 1 << 16;  // sizes stay within 63 bits
  if (input < 1 || hidden < 1 || layers < 1 || input > widest || hidden > widest ||
      layers > deepest || projected < 0 || projected > hidden ||
      (projected && cell != lstm && projected != hidden))
    return fail(bad_param, "sizes of a recurrent network are out of range");
  *rnn = {.cell = cell,
          .bias_mode = bias_mode,
          .directions = direction + 1,
          .type = type,
          .math_type = math_type,
          .input = input,
          .hidden = hidden,
          .projected = projected == hidden ? 0 : projected,
          .layers = layers,
          .drops = made(dropout) && dropout->probability > 0};
  return success;
}

CUDNN int cudnnSetRNNDataDescriptor(Sequences* sequences, int type, int, int longest, int batch,
                                    int vector, const int* lengths, void*) {
  if (!made(sequences) || !lengths)
    return fail(null_pointer, "sequences or their lengths are null or none of cuDNN's");
  if (longest < 1 || batch < 1 || vector < 1 ||
      std::any_of(lengths, lengths + batch, [&](int n) { return n < 0 || n > longest; }))
    return fail(bad_param, "sequences have lengths out of range");
  *sequences = {type, longest, batch, vector,
                std::accumulate(lengths, lengths + batch, std::int64_t{0})};
  return success;
}

CUDNN int cudnnGetRNNWeightSpaceSize(const Handle*, const Rnn* rnn, std::size_t* size) {
  if (!made(rnn) || !size)
    return fail(null_pointer, "a descriptor or the place for a size is null or none of cuDNN's");
  *size = rnn->weight_bytes();
  return success;
}
CUDNN int cudnnGetRNNTempSpaceSizes(const Handle*, const Rnn* rnn, int mode, const Sequences* x,
                                    std::size_t* workspace, std::size_t* reserve) {
  if (!made(rnn) || !made(x))
    return fail(null_pointer, "a descriptor of a recurrent network is null or none of cuDNN's");
  if (workspace) *workspace = modelled(workspace_of(*rnn, *x));
  if (reserve) *reserve = mode == 0 ? 0 : modelled(reserve_of(*rnn, *x));
  return success;
}

// The matrices of all layers come first, then the biases; of a layer the gates' input matrices,
// their recurrent ones, the projection.
CUDNN int cudnnGetRNNWeightParams(const Handle*, const Rnn* rnn, std::int32_t layer, std::size_t,
                                  const void* weights, std::int32_t matrix, Shape* shape,
                                  void** address, Shape* bias_shape, void** bias_address) {
  if (!made(rnn))
    return fail(null_pointer, "the descriptor of a recurrent network is null or none of cuDNN's");
  const int gates = rnn->gates();
  const bool projection = matrix == 2 * gates;
  if (layer < 0 || layer >= rnn->pseudo_layers() || matrix < 0 || matrix > 2 * gates ||
      (projection && rnn->projected == 0))
    return fail(bad_param, "a recurrent network has no such layer or matrix");
  const std::int64_t in = rnn->inputs_of(layer), out = rnn->output(), hidden = rnn->hidden;
  const std::int64_t first = rnn->all_matrices(layer);
  const bool recurrent = matrix >= gates;
  const std::int64_t before =
      recurrent ? gates * hidden * in + (matrix - gates) * hidden * out : matrix * hidden * in;
  place(shape, address, rnn->type, projection ? rnn->projected : hidden,
        projection  ? hidden
        : recurrent ? out
                    : in,
        weights, first + before);
  const std::int64_t own = rnn->bias_mode == 3 ? matrix - gates : matrix;
  const bool has_bias = !projection && own >= 0 && own * hidden < rnn->biases();
  if (has_bias) {
    place(bias_shape, bias_address, rnn->type, hidden, 1, weights,
          rnn->all_matrices(rnn->pseudo_layers()) + layer * rnn->biases() + own * hidden);
  } else if (bias_address) {
    *bias_address = nullptr;
  }
  return success;
}

CUDNN int cudnnRNNForward(const Handle* handle, const Rnn* rnn, int, const std::int32_t*,
                          const Sequences* x, const void*, const Sequences*, void*, const Shape*,
                          const void*, void*, const Shape*, const void*, void*, std::size_t,
                          const void*, std::size_t, void*, std::size_t, void*) {
  return step(handle, "cudnn rnn", rnn, x, 1);
}
CUDNN int cudnnRNNBackwardData_v8(const Handle* handle, const Rnn* rnn, const std::int32_t*,
                                  const Sequences*, const void*, const void*, const Sequences* x,
                                  void*, const Shape*, const void*, const void*, void*,
                                  const Shape*, const void*, const void*, void*, std::size_t,
                                  const void*, std::size_t, void*, std::size_t, void*) {
  return step(handle, "cudnn rnn backward data", rnn, x, 1);
}
CUDNN int cudnnRNNBackwardWeights_v8(const Handle* handle, const Rnn* rnn, int, const std::int32_t*,
                                     const Sequences* x, const void*, const Shape*, const void*,
                                     const Sequences*, const void*, std::size_t, void*, std::size_t,
                                     void*, std::size_t, void*) {
  return step(handle, "cudnn rnn backward weights", rnn, x, 1);
}
