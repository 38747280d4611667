// The attributes that each kind of descriptor has in cuDNN 9.26 (cudnn_graph.h of its wheel).
#include <algorithm>
#include <iterator>

#include "harness/virtual/cudnn/backend.h"

namespace tidemark::cudnn {
namespace {

/// The attributes `first` to `last` belong to descriptors of `kind`.
struct Range {
  int kind, first, last;
};
constexpr Range kAttributes[]{
    {pointwise, 0, 9},
    {convolution, 100, 106},
    {heuristics, 200, 204},
    {engine_config, 300, 304},
    {plan, 400, 407},
    {6, 500, 503},  // intermediate info
    {7, 600, 601},  // knob choice
    {convolution_forward, 700, 705},
    {convolution_backward_data, 706, 711},
    {convolution_backward_filter, 712, 717},
    {operation_pointwise, 750, 758},
    {14, 770, 774},  // statistics of a batch norm
    {20, 780, 796},  // their end
    {graph, 800, 806},
    {tensor, 900, 914},
    {variant_pack, 1000, 1012},
    {9, 1100, 1101},  // layout
    {8, 1200, 1203},  // knob
    {engine, 1300, 1308},
    {18, 1500, 1503},  // matrix product
    {operation_matmul, 1520, 1527},
    {21, 1600, 1602},  // reduction
    {operation_reduction, 1610, 1612},
    {23, 1620, 1630},  // gradients of a batch norm's weights
    {24, 1700, 1708},  // resampling
    {25, 1710, 1716},
    {26, 1720, 1727},
    {27, 1800, 1803},  // concatenation
    {28, 1900, 1904},  // signal
    {35, 1950, 1953},  // load of a paged cache
    {operation_norm_forward, 2000, 2014},
    {operation_norm_backward, 2100, 2110},
    {operation_reshape, 2200, 2202},
    {operation_band, 2250, 2257},
    {40, 2270, 2276},  // contraction of a band
    {32, 2300, 2305},  // random numbers
    {operation_rng, 2310, 2313},
    {34, 2400, 2402},  // cache of kernels
    {36, 2500, 2504},  // quantisation by blocks
    {37, 2600, 2605},
    {38, 2700, 2702},  // properties of a device
    {operation_attention_forward, 2800, 2829},
    {operation_attention_backward, 2851, 2869},
    {42, 2900, 2908},  // grouped products
    {48, 2951, 2955},
    {44, 3000, 3009},  // diagonal band of a mask
    {operation_softmax, 3100, 3105},
    {46, 3200, 3202},  // transposition
    {47, 3300, 3304},  // slice
    {49, 3400, 3404},  // rotary embedding
    {50, 3410, 3414},
};

}  // namespace

bool has_attribute(int kind, int name) {
  return std::any_of(std::begin(kAttributes), std::end(kAttributes), [&](const Range& range) {
    return range.kind == kind && range.first <= name && name <= range.last;
  });
}

int type_of_attribute(int name) {
  switch (name) {
    case convolution_dilations:
    case convolution_strides:
    case convolution_post_paddings:
    case convolution_pre_paddings:
    case tensor_sizes:
    case tensor_strides:
    case tensor_id:
    case pack_ids:
    case engine_index:
      return of_int64;
    case tensor_is_virtual:
    case tensor_is_by_value:
      return of_boolean;
    case tensor_type:
      return of_data_type;
    case pack_pointers:
    case pack_workspace:
      return of_pointer;
    case heuristics_graph:
    case config_engine:
    case config_knob_choices:
    case plan_config:
    case graph_operations:
    case engine_graph:
      return of_descriptor;
    default:
      return -1;
  }
}

}  // namespace tidemark::cudnn
