#include "harness/memory/tree.h"

#include <algorithm>

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
  if (value.size() > UINT32_MAX) throw SnapshotError("holds a text of more than 4 GiB");
  const Id id = add(Type::text);
  values_[id].text = value.data();
  values_[id].size = static_cast<std::uint32_t>(value.size());
  return id;
}

Tree::Id Tree::container(Type type) {
  if (++containers_ > kContainers) throw SnapshotError("holds more than 30,000,000 lists");
  const Id id = add(type);
  values_[id].items = nullptr;
  return id;
}

/// Room for so many items; their number stands before the first.
Tree::Id* Tree::room(std::size_t items) {
  constexpr std::size_t kRoom = 1 << 14;
  if (items >= left_) {
    const bool own = items >= kRoom / 4;  // and the rest of the last one is still there for others
    rooms_.push_back(std::make_unique_for_overwrite<Id[]>(own ? items + 1 : kRoom));
    if (own) {
      rooms_.back()[0] = static_cast<Id>(items);
      return rooms_.back().get() + 1;
    }
    free_ = rooms_.back().get(), left_ = kRoom;
  }
  Id* const at = free_ + 1;
  *free_ = static_cast<Id>(items);
  free_ += items + 1, left_ -= items + 1;
  return at;
}

void Tree::append(Id container, std::span<const Id> values) {
  Value& list = values_[container];
  const std::size_t size = list.size + values.size();
  const std::size_t there = list.items == nullptr ? 0 : list.items[-1];
  if (values.empty()) return;
  if (size > there) {  // most are filled at once
    Id* const items = room(there == 0 ? size : std::max(size, 2 * there));
    std::copy_n(list.items, list.size, items);
    list.items = items;
  }
  std::ranges::copy(values, list.items + list.size);
  list.size = static_cast<std::uint32_t>(size);
}

std::string_view Tree::keep(std::string text) { return kept_.emplace_back(std::move(text)); }

}  // namespace tidemark
