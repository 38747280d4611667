// A scenario's variants, each with the policy that makes it what it is.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario.h"

namespace tidemark {

template <class Policy>
class VariantTable {
 public:
  struct Row {
    Variant variant;
    Policy policy;
  };
  VariantTable(std::vector<Row> rows) : rows_(std::move(rows)) {}

  /// In the order of the table.
  std::vector<Variant> list() const {
    std::vector<Variant> all;
    for (const auto& row : rows_) all.push_back(row.variant);
    return all;
  }
  /// Throws std::out_of_range for a name that it does not have.
  const Policy& operator[](const std::string& variant) const {
    for (const auto& row : rows_) {
      if (row.variant.name == variant) return row.policy;
    }
    throw std::out_of_range("there is no variant " + variant);
  }

 private:
  std::vector<Row> rows_;
};

}  // namespace tidemark
