// Moments of a step at which memory may be highest, and what is alive then, as sums of named
// amounts (symbols() explains them). On paper: from the chain's rules (chain.h), from what FSDP2
// holds when (a gathered buffer until it is copied out, in forward until the next one is; a
// reduce-scatter's input until the next one), and from what autograd's operators take (a product's
// gradient of the weight first, then that of its input; what it saved goes when it is done).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cases/frozen_reshard/chain.h"

namespace tidemark::frozen_reshard {

/// How often each symbol is alive.
class Alive {
 public:
  void add(const std::string& symbol, std::int64_t times);
  std::string text() const;  // "rest + 3*U + S"
  /// Nothing is alive more often than in `other`.
  bool within(const Alive& other) const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> times_;
};

struct Moment {
  std::string where;
  Alive alive;
};

/// In the order of the step.
struct PhaseMoments {
  std::string phase;
  std::vector<Moment> highest;  // one of them is; none is within another
  std::vector<Moment> named;    // the program's moments, by their names
  std::vector<Moment> end;      // one, where the phase's end is judged
};

std::vector<PhaseMoments> moments(const Chain& chain);

}  // namespace tidemark::frozen_reshard
