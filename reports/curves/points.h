// Points of curves, collected from the records of a file in whatever order the file has them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reports/curves/curve.h"

namespace tidemark {

/// One row, object or line of a file: names with their texts.
using Record = std::vector<std::pair<std::string, std::string>>;

class Points {
 public:
  /// `where`: the file, for errors.
  explicit Points(std::string where) : where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  void add(const std::string& curve, std::int64_t step, double value);
  /// A point of every curve that has a number in `record`, at the step that `record` names. Times
  /// of day are no curve. Fails where no step is named, where the loss is not a number, and with
  /// `numbers_only` where any other text is not.
  void add(const Record& record, const std::string& place, bool numbers_only = false);
  /// The curves, in the order of their first points. Fails where a step came twice, or no point.
  std::vector<Curve> take();
  /// Throws std::runtime_error: file, place, `what`.
  [[noreturn]] void fail(const std::string& place, const std::string& what) const;

 private:
  std::string where_;
  std::map<std::string, std::size_t> index_;
  std::vector<Curve> curves_;
};

/// A column or key of that name holds steps.
bool names_step(std::string_view name);

}  // namespace tidemark
