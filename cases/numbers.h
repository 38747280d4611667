// Conversion of the reference's numbers: to the values of tensors, and to the oracle that the
// variants of a case are compared with.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "harness/scenario.h"
#include "reference/training.h"

namespace tidemark {

/// Elements [offset, offset + tensor.numel()) of the tensor `name` (reference/deterministic.h), in
/// the tensor's type, on the current stream.
void fill(std::uint64_t seed, const std::string& name, std::int64_t offset,
          const at::Tensor& tensor);

/// This rank's part of a batch, in category "inputs"; with its numbers in mode math, where the
/// parts lie one behind the other by rank.
at::Tensor batch(const Trial& trial, const std::string& name, at::IntArrayRef size, int rank,
                 at::ScalarType type);

/// The parameters of a model that is whole on this rank, or of its stages, in the model's order.
class Parameters {
 public:
  /// Makes one, in category "parameters"; with its first numbers in mode math.
  at::Tensor add(const Trial& trial, const std::string& name, at::IntArrayRef size,
                 at::ScalarType type = at::kFloat);
  std::vector<at::Tensor> gradients() const;
  /// A tensor for each parameter, under its name.
  std::vector<Shard> named(const std::vector<at::Tensor>& each) const;

  std::vector<at::Tensor> values;

 private:
  std::vector<std::string> names_;
};

/// The part of a tolerance's reason that holds for a model trained with Adam.
inline constexpr const char* kAfterAdam =
    "; of parameters times what Adam makes of an error, and of the loss besides by what these "
    "errors "
    "make of it";

/// The oracle of the result of reference::train(), without a tolerance, which the case sets.
Oracle oracle_of(const reference::Trained& result);

/// Rounding errors of `depth` products and norms in a row, each a sum of at most `terms` terms, to
/// first order, relative to the norm of the result. fp32: every sum is off by about sqrt(terms)
/// half-units in the last place, since rounding errors add up like a random walk (u = 2^-24). bf16:
/// the same holds for its sums, which are added up in fp32, and each operand and each result is
/// rounded once more when it is stored (v = 2^-8).
struct Rounding {
  double tolerance;
  std::string why;  // with these texts for the two
};
Rounding rounding(bool single, std::int64_t depth, const std::string& depth_text,
                  std::int64_t terms, const std::string& terms_text);

/// Training of reference/multi_mlp.h with the trial's layers and width, on so many rows over all
/// ranks.
Oracle multi_mlp_oracle(const Trial& trial, std::int64_t rows, bool single);
/// Why the numbers of such a model prove nothing in this trial, or empty. A norm of one element
/// passes on no gradient, and a norm of two elements only the sign of their difference.
std::string why_norms_are_too_narrow(const Trial& trial);

}  // namespace tidemark
