// Values of a tree by the keys of their dictionaries; an error is one line that names the place.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/memory/error.h"
#include "harness/memory/tree.h"
#include "harness/record/one_line.h"

namespace tidemark {

class TreeReader {
 protected:
  using Id = Tree::Id;
  using Type = Tree::Type;

  [[noreturn]] void fail(const std::string& what) const {
    std::string place;
    for (const auto& [name, item] : places_)
      place += name + (item ? fmt::format("[{}]", *item) : "");
    throw SnapshotError((place.empty() ? "" : place + ": ") + one_line(what));
  }
  void need(Id id, Type type) const {
    if (tree_[id].type != type)
      fail(fmt::format("is {}, not {}", name_of(tree_[id].type), name_of(type)));
  }

  /// Calls `take` with each item of a list, all of the type. Messages name it `name`[2].
  void each(Id list, const char* name, Type type, const auto& take) {
    places_.push_back({name, {}});
    need(list, Type::list);
    const auto items = tree_.items(list);
    for (std::size_t i = 0; i < items.size(); ++i) {
      places_.back().item = i;
      need(items[i], type);
      take(items[i]);
    }
    places_.pop_back();
  }

  std::optional<Id> find(Id dictionary, std::string_view key) const {
    const auto items = tree_.items(dictionary);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (tree_[items[i]].type == Type::text && tree_.text_of(items[i]) == key) return items[i + 1];
    return std::nullopt;
  }
  std::int64_t integer(Id id, const char* key) const {
    if (tree_[id].type != Type::integer)
      fail(fmt::format("'{}' is {}, not an integer", key, name_of(tree_[id].type)));
    return tree_[id].integer;
  }
  std::int64_t integer(Id dictionary, const char* key,
                       std::optional<std::int64_t> otherwise) const {
    const auto value = find(dictionary, key);
    if (!value && otherwise) return *otherwise;
    if (!value) fail(fmt::format("has no '{}'", key));
    return integer(*value, key);
  }
  std::string text(Id dictionary, const char* key, const char* otherwise) const {
    const auto value = find(dictionary, key);
    if (!value || tree_[*value].type != Type::text) return otherwise;
    return std::string(tree_.text_of(*value));
  }

  Tree tree_;
  /// A list and the item that is read. Put into words only where it is wrong.
  struct Place {
    const char* name;
    std::optional<std::size_t> item;
  };
  std::vector<Place> places_;  // from the outermost
};

}  // namespace tidemark
