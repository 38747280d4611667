// The moments of one layer that can be a phase's highest, as sums of the layer's own amounts.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cases/tp_buffer_reuse/model.h"
#include "cases/tp_buffer_reuse/variants.h"

namespace tidemark::tp_buffer_reuse {

/// A sum of whole multiples of symbols.
class Sum {
 public:
  Sum() = default;
  Sum(std::initializer_list<std::pair<std::string, int>> terms);
  Sum& add(const std::string& symbol, int n);
  Sum operator+(const Sum& other) const;
  /// "2*X + s"
  std::string text() const;

 private:
  std::vector<std::pair<std::string, int>> terms_;
};

/// What a layer keeps of a microbatch between forward and backward.
Sum kept(const Dimensions& sizes, const Layout& layout);
/// What is alive of a layer in the parts of its flash attention, in forward.
Sum within_attention(const Dimensions& sizes, const Layout& layout);

/// An operator of a layer's backward.
struct Operator {
  std::string name = {};
  Sum layer = {};   // what its layer still keeps of the microbatch
  Sum made = {};    // what it makes and holds, but for the gradient of its weight
  Sum before = {};  // gradients of weights that the layer has made already
  Sum weight = {};  // the gradient of its weight; empty where it has none
  /// Whether the residual stream's gradient is a tensor beside the output's, in the top layer too.
  bool residual = false;
};

/// In the order of backward.
std::vector<Operator> backward_operators(const Dimensions& sizes, const Layout& layout);

}  // namespace tidemark::tp_buffer_reuse
