// Conversion of the reference's numbers: to the values of tensors, and to the oracle that the
// variants of a case are compared with.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/scenario.h"
#include "reference/spread.h"

namespace tidemark {

/// Elements [offset, offset + tensor.numel()) of the tensor `name` (reference/deterministic.h), in
/// the tensor's type, on the current stream.
void fill(std::uint64_t seed, const std::string& name, std::int64_t offset,
          const at::Tensor& tensor, double step = 0);

/// This rank's part of a batch, in category "inputs"; with its numbers in mode math, where the
/// parts lie one behind the other by rank.
at::Tensor batch(const Trial& trial, const std::string& name, at::IntArrayRef size, int rank,
                 at::ScalarType type);

/// The parameters of a model that is whole on this rank, or of its stages, in the model's order.
class Parameters {
 public:
  /// Makes one, in category "parameters"; with its first numbers in mode math.
  at::Tensor add(const Trial& trial, const std::string& name, at::IntArrayRef size,
                 at::ScalarType type = at::kFloat, double step = 0);
  std::vector<at::Tensor> gradients() const;
  /// A tensor for each parameter, under its name.
  std::vector<Shard> named(const std::vector<at::Tensor>& each) const;

  std::vector<at::Tensor> values;

 private:
  std::vector<std::string> names_;
};

/// mean((output - target)^2), a scalar with a gradient for `output`. Both are contiguous, of one
/// shape and type. Between forward and backward it keeps their difference alone, which becomes the
/// output's gradient in place, so that a step's peaks are those of a mean of the output.
at::Tensor mean_square_error(const at::Tensor& output, const at::Tensor& target);

/// The oracle of the exact result of reference::train(), with its tolerances and their reason.
Oracle oracle_of(const reference::Trained& exact, const reference::Precision& precision,
                 const std::function<reference::Trained(reference::Noise)>& train);
/// Of numbers with these bytes, 4 (fp32) or 2 (bf16), in a step of so many microbatches. A rank's
/// loss is rounded when its terms are added up and when their number divides them, by each
/// microbatch's share and sum, and over the ranks by as many sums as there are others and a share.
reference::Precision precision_of(const Trial& trial, std::int64_t activations,
                                  std::int64_t parameters, std::int64_t microbatches = 1);

/// Training of reference/multi_mlp.h with the trial's layers and width, on so many rows over all
/// ranks.
Oracle multi_mlp_oracle(const Trial& trial, std::int64_t rows,
                        const reference::Precision& precision);
/// Step (reference/deterministic.h) of its weight `name`; 0 for those of norms.
double multi_mlp_step(const Trial& trial, const std::string& name);
/// Why the numbers of a model of this width prove nothing in this trial, or empty. A norm of one
/// element passes on no gradient, a norm of two elements only the sign of their difference, and the
/// tolerance of a few numbers in bf16 is uncertain.
std::string why_too_narrow(const Trial& trial);

}  // namespace tidemark
