// Named amounts of memory, added and taken away as an action of the schedule goes on, and the
// moments at which they are highest.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reference/language_model_plan.h"

namespace tidemark::zero_bubble_detach {

using reference::Terms;

/// The tensors that each symbol stands for, in requested bytes.
using Tensors = std::map<std::string, std::vector<Bytes>>;

class Ledger {
 public:
  /// `parts`: symbols that are sums of others, as counts of these.
  Ledger(const Tensors& tensors, std::map<std::string, Terms> parts);

  struct Moment {
    std::string where;
    Terms terms;
    double bytes = -1;
  };

  void add(const Terms& terms, double count = 1);
  void take(const std::string& symbol, double count = 1) { now_[symbol] += count; }
  void drop(const std::string& symbol, double count = 1) { now_[symbol] -= count; }
  /// One `symbol` is from now on counted as its parts; close() is the opposite.
  void open(const std::string& symbol);
  void close(const std::string& symbol);
  /// A moment that may be the highest.
  void moment(const std::string& where);
  /// Every symbol as its parts, zeros left out.
  Terms in_parts() const;
  const Terms& now() const { return now_; }
  void set(const Terms& terms) { now_ = terms; }

  /// The highest so far by each of these measures: requested bytes; every tensor rounded to 512
  /// bytes; and besides, 1 MiB for each tensor above that (see Vocabulary).
  const std::array<Moment, 3>& highest() const { return highest_; }

 private:
  std::map<std::string, std::array<double, 3>> bytes_;  // of a symbol, by measure
  std::map<std::string, Terms> parts_;
  Terms now_;
  std::array<Moment, 3> highest_;
};

}  // namespace tidemark::zero_bubble_detach
