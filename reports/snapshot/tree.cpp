#include "reports/snapshot/tree.h"

namespace tidemark {

const char* name_of(Tree::Type type) {
  constexpr const char* kNames[] = {"None", "a boolean", "an integer",   "a float",
                                    "text", "a list",    "a dictionary", "a mark"};
  return kNames[static_cast<std::size_t>(type)];
}

Tree::Id Tree::add(Type type) {
  if (values_.size() >= kValues) throw SnapshotError("holds more than 150,000,000 values");
  values_.emplace_back();
  values_.back().type = type;
  return static_cast<Id>(values_.size() - 1);
}

Tree::Id Tree::integer(std::int64_t value, Type type) {
  Id* const small =
      type == Type::integer && value >= 0 && value < static_cast<std::int64_t>(small_.size())
          ? &small_[static_cast<std::size_t>(value)]
          : nullptr;
  if (small != nullptr && *small != 0) return *small;
  const Id id = add(type);
  values_[id].integer = value;
  if (small != nullptr) *small = id;
  return id;
}

Tree::Id Tree::real(double value) {
  const Id id = add(Type::real);
  values_[id].real = value;
  return id;
}

Tree::Id Tree::text(std::string_view value) {
  const Id id = add(Type::text);
  values_[id].items = static_cast<std::uint32_t>(texts_.size());
  texts_.push_back(value);
  return id;
}

Tree::Id Tree::container(Type type) {
  if (items_.size() >= kContainers) throw SnapshotError("holds more than 30,000,000 lists");
  const Id id = add(type);
  values_[id].items = static_cast<std::uint32_t>(items_.size());
  items_.emplace_back();
  return id;
}

void Tree::append(Id container, std::span<const Id> values) {
  auto& items = items_[values_[container].items];
  if (items.empty()) items.reserve(values.size());  // most are filled at once
  items.insert(items.end(), values.begin(), values.end());
}

std::string_view Tree::keep(std::string text) { return kept_.emplace_back(std::move(text)); }

}  // namespace tidemark
