// Points of curves, collected from the records of a file in whatever order the file has them.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
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
  /// The points added from here on are of another file of the same curves.
  void in(std::string where) { where_ = std::move(where); }
  /// A fact about the file that its reader should say; one text for each `kind`, the first.
  void note(const std::string& kind, const std::string& text);
  void add(const std::string& curve, std::int64_t step, double value);
  /// A point of every curve that has a number in `record`, at the step that `record` names. Times
  /// of day are no curve, and what is_missing() is no point. Fails where no step is named, where
  /// two losses have one name, where the loss is not a number, and with `numbers_only` where any
  /// other text is not.
  void add(const Record& record, const std::string& place, bool numbers_only = false);
  /// The curves, in the order of their first points. Of a step that came twice the last point
  /// counts. Fails where there is no point.
  std::vector<Curve> take();
  std::vector<std::string> notes() const;
  /// Throws std::runtime_error: file, place, `what`.
  [[noreturn]] void fail(const std::string& place, const std::string& what) const;

 private:
  /// What a name means, looked up once for each value.
  struct Name {
    std::size_t step;  // place among the names of steps
    bool other, loss;  // no curve; the loss itself
    std::optional<std::size_t> curve;
  };
  Name& known(const std::string& name);
  void add(Name& name, const std::string& text, std::int64_t step, double value);

  std::string where_;
  std::unordered_map<std::string, Name> names_;
  std::vector<Name*> meant_;  // of the record that is added
  std::vector<Curve> curves_;
  std::vector<std::pair<std::string, std::string>> notes_;
  std::int64_t missing_ = 0;  // values of losses
};

std::string lower(std::string_view text);
/// The name of a column in lower case; W&B exports it as "run - metric", and the metric counts.
std::string metric_of(std::string_view name);
/// True for a text that stands for no value: empty, null, None.
bool is_missing(std::string_view text);
/// Which of several names of steps is meant: that of the lowest rank.
std::size_t rank_of_step(std::string_view name);
/// True for the name of a column or key that holds steps.
bool names_step(std::string_view name);

}  // namespace tidemark
