// Points of curves, put together as they are read, in whatever order a file has them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/curves/curve.h"

namespace tidemark {

class Gather {
 public:
  explicit Gather(std::string where) : where_(std::move(where)) {}

  void add(const std::string& curve, std::int64_t step, double value);
  /// Sorted, in the order of their first points. Throws where a step came twice, or nothing came.
  std::vector<Curve> take();
  [[noreturn]] void fail(const std::string& place, const std::string& what) const;

  /// Whether a column or key of that name holds steps; whether one holds times of day, which are no
  /// curve.
  static bool names_step(std::string_view name);
  static bool names_time(std::string_view name);

 private:
  std::string where_;
  std::map<std::string, std::size_t> index_;
  std::vector<Curve> curves_;
};

}  // namespace tidemark
