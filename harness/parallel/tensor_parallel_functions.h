// The autograd Functions of tensor parallelism, each as an operator: what it saves and which
// collectives it calls is the whole difference between the gather policies.
#pragma once

#include <ATen/core/Tensor.h>

namespace tidemark {

class TensorParallel;

inline constexpr const char* kAllGather = "all_gather";
inline constexpr const char* kReduceScatter = "reduce_scatter";

/// [rows / ranks, n] -> [rows, n]; backward reduce-scatters. Saves nothing.
at::Tensor all_gather_function(const at::Tensor& x, TensorParallel& group);
/// [rows, n] -> [rows / ranks, n]; backward all-gathers. Saves nothing.
at::Tensor reduce_scatter_function(const at::Tensor& x, TensorParallel& group);
/// All-gather and product in one. Saves the weight and what was gathered or, where the policy
/// recomputes, the shard.
at::Tensor column_linear_function(const at::Tensor& x, const at::Tensor& weight,
                                  TensorParallel& group);
/// The same, recomputing, with its collectives on the communicator's stream. Its second gather does
/// not wait for the current stream: its input is as old as the forward pass, and its buffer is
/// free, because a row linear's backward has gathered (and waited) after the last reader. So a
/// model must end every path from a column linear in a row linear.
at::Tensor async_column_linear_function(const at::Tensor& x, const at::Tensor& weight,
                                        TensorParallel& group);
/// Product and reduce-scatter in one, collectives on the communicator's stream, the gathered
/// gradient in a persistent buffer.
at::Tensor async_row_linear_function(const at::Tensor& x, const at::Tensor& weight,
                                     TensorParallel& group);

}  // namespace tidemark
