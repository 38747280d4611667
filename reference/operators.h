// Operators of small models on one process, in double precision: plain loops, each with its
// gradient written out by hand. A model says its forward pass, and the tape runs the gradients in
// the opposite order.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

namespace tidemark::reference {

using Values = std::vector<double>;

/// A matrix, flat, row by row.
struct Variable {
  std::size_t columns;  // of a weight: unused
  Values value;
  Values gradient;  // of the loss; every use of the variable adds to it
};
using Operand = Variable*;

/// Shape of causal attention with grouped queries. A row of queries is a token with all its heads.
struct Heads {
  std::size_t sequence, batch, heads, kv_heads, head;  // head: elements of one
  bool sequence_slower;  // row = token * batch + sequence, else the other way
};

/// The order of the elements of a product's weight.
enum class Stored { output_first, input_first };

/// Operators in the order of the forward pass. Their results live as long as the tape.
class Tape {
 public:
  Operand leaf(Values value, std::size_t columns = 0);

  /// x [rows, in], w [out, in] or [in, out] -> [rows, out].
  Operand product(Operand x, Operand w, Stored stored = Stored::output_first);
  /// Both with an epsilon of 1e-5 and no bias.
  Operand rms_norm(Operand x, Operand weight);
  Operand layer_norm(Operand x, Operand weight);
  Operand gelu(Operand x);
  /// gate * sigmoid(gate) * up.
  Operand swiglu(Operand gate, Operand up);
  /// softmax(q k^T / sqrt(head), causal) v by head.
  Operand attention(const Heads& shape, Operand q, Operand k, Operand v);
  /// The rows of `table` with these numbers.
  Operand lookup(Operand table, const std::vector<std::size_t>& rows, std::size_t columns);

  /// x + branch(x).
  template <class Branch>
  Operand residual(Operand x, Branch branch) {
    const Operand y = leaf(x->value, x->columns);
    backwards_.push_back([=] { add(x->gradient, y->gradient); });  // runs after the branch's
    const Operand through = branch(x);
    add(y->value, through->value);
    backwards_.push_back([=] { add(through->gradient, y->gradient); });
    return y;
  }

  /// From the gradients that the model has written to its last variable; once a forward pass.
  void backward();

 private:
  static void add(Values& to, const Values& from);

  std::deque<Variable> variables_;
  std::vector<std::function<void()>> backwards_;
};

}  // namespace tidemark::reference
