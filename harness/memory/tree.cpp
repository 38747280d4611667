#include "harness/memory/tree.h"

#include <algorithm>
#include <cstring>

namespace tidemark {

const char* name_of(Tree::Type type) {
  constexpr const char* kNames[] = {"None",    "a boolean", "an integer",   "a float",
                                    "text",    "a list",    "a dictionary", "a frame",
                                    "a stack", "an event",  "a block"};
  return kNames[static_cast<std::size_t>(type)];
}

Tree::Id Tree::add(Type type) {
  Id id = unused_;
  if (id != kNone) {
    unused_ = static_cast<Id>(values_[id].integer);
    values_[id] = {};
  } else {
    if (values_.size() >= kValues) throw SnapshotError("holds more than 150,000,000 values");
    values_.emplace_back();
    id = static_cast<Id>(values_.size() - 1);
  }
  values_[id].type = type;
  return id;
}

Tree::Id Tree::none() {
  if (none_ == kNone) share(none_ = add(Type::none));
  return none_;
}

/// The place of the last integer that may be this one.
Tree::Id& Tree::recent(std::int64_t value) {
  return recent_[static_cast<std::uint64_t>(value) * 0x9e3779b97f4a7c15U >> 54U];
}

Tree::Id Tree::integer(std::int64_t value, Type type) {
  Id* known = nullptr;
  if (type == Type::boolean)
    known = value != 0 ? &true_ : &false_;
  else if (value >= 0 && value < static_cast<std::int64_t>(small_.size()))
    known = &small_[static_cast<std::size_t>(value)];
  if (known != nullptr && *known != kNone) return *known;
  if (known == nullptr)
    if (const Id last = recent(value);
        last != kNone && values_[last].integer == value && values_[last].size < UINT32_MAX) {
      ++values_[last].size;
      return last;
    }
  const Id id = add(type);
  values_[id].integer = value, values_[id].size = 1;
  if (known == nullptr) recent(value) = id;
  if (known != nullptr) share(*known = id);
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

Tree::Id Tree::own_text(std::string&& value) {
  const auto [known, fresh] = texts_.try_emplace(std::move(value), kNone);
  if (fresh) share(known->second = text(known->first));
  return known->second;
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
  if (items < kReused && left_rooms_[items] != nullptr) {
    Id* const at = left_rooms_[items];
    std::memcpy(&left_rooms_[items], static_cast<const void*>(at), sizeof(Id*));
    return at;
  }
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

void Tree::leave_room(Id* items) {
  if (items == nullptr || items[-1] >= kReused || items[-1] * sizeof(Id) < sizeof(Id*)) return;
  std::memcpy(static_cast<void*>(items), &left_rooms_[items[-1]], sizeof(Id*));
  left_rooms_[items[-1]] = items;
}

void Tree::append(Id container, std::span<const Id> values) {
  Value& list = values_[container];
  const std::size_t size = list.size + values.size();
  const std::size_t there = list.items == nullptr ? 0 : list.items[-1];
  if (values.empty()) return;
  if (size > there) {  // most are filled at once
    Id* const items = room(there == 0 ? std::max<std::size_t>(size, 2) : std::max(size, 2 * there));
    std::copy_n(list.items, list.size, items);
    leave_room(list.items);
    list.items = items;
  }
  std::ranges::copy(values, list.items + list.size);
  list.size = static_cast<std::uint32_t>(size);
}

void Tree::become(Id id, Type type, std::int64_t number) {
  Value& value = values_[id];
  release_items(value, 0);
  value.type = type, value.size = 0, value.integer = number;
}

void Tree::release(Id id, int depth) {
  Value& value = values_[id];
  if (value.shared) return;
  if (value.type == Type::integer) {
    if (--value.size > 0) return;
    if (Id& last = recent(value.integer); last == id) last = kNone;
  }
  release_items(value, depth);
  value = {};
  value.integer = unused_;
  unused_ = id;
}

void Tree::release_items(Value& value, int depth) {
  constexpr int kDepth = 4;  // of an event: a stack, a frame, its texts. Others stay
  if (value.type != Type::list && value.type != Type::dictionary) return;
  --containers_;
  for (std::size_t i = 0; depth < kDepth && i < value.size; ++i) release(value.items[i], depth + 1);
  leave_room(value.items);
}

}  // namespace tidemark
