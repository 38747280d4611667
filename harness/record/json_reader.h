// Reader of the record's fields (fields.h) from JSON. Throws as Node does.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/record/budget.h"
#include "harness/record/fields.h"
#include "harness/record/json.h"
#include "harness/record/json_node.h"
#include "harness/record/json_writer.h"

namespace tidemark {

class JsonReader {
 public:
  /// `extent`: all fields, or f.detail alone.
  explicit JsonReader(const Node& node, Extent extent = Extent::whole)
      : node_(node), extent_(extent) {}

  template <class T>
  static void read(const Node& node, T& x) {
    if constexpr (std::is_same_v<T, std::string>) {
      x = node.text();
    } else if constexpr (std::is_same_v<T, bool>) {
      x = node.boolean();
    } else if constexpr (std::is_same_v<T, double>) {
      x = node.number_or_null().value_or(std::numeric_limits<double>::infinity());
    } else if constexpr (std::is_same_v<T, int>) {
      x = node.small_integer();
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      x = node.natural();
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      x = node.integer();
    } else if constexpr (std::is_enum_v<T>) {
      x = enumerator<T>(node);
    } else {
      compose(node, x);
    }
  }

  void title(const char*, const char* = "") {}
  void operator()(const char* key, auto& x, const Meaning& meaning = {}, const char* = "") {
    if (extent_ == Extent::details) return;
    const Node member = node_[key];
    if (!meaning.null_if_empty || !member.value().is_null()) read(member, x);
  }
  void later(const char* key, auto& x, const Meaning& meaning = {}, const char* = "") {
    if (node_.has(key)) (*this)(key, x, meaning);
  }
  void optional(const char* key, auto& x, const Meaning& meaning = {}, const auto&...) {
    later(key, x, meaning);
  }
  template <class T>
  void runs(const char* key, std::vector<T>& all, const char*) {
    if (extent_ == Extent::details) return;
    node_[key].each([&](const Node& item) {
      const int times = item.has("times") ? item["times"].small_integer() : 1;
      if (times < 1 || all.size() + static_cast<std::size_t>(times) > kMostTrialSteps)
        item["times"].fail(
            fmt::format("is not a number of steps (from 1 to {} in all)", kMostTrialSteps));
      T each;
      read(item, each);
      all.insert(all.end(), static_cast<std::size_t>(times), each);
    });
  }
  void exact(const char* key, const char* hex, std::optional<double>& x) {
    if (!node_[hex].value().is_null()) x = node_[hex].hexadecimal();
    const auto decimal = node_[key].number_or_null();
    if (decimal && x != decimal)
      node_.fail(fmt::format("'{}' and '{}' are different numbers", key, hex));
  }
  void derived(const char* key, auto made, const char*, const char* fault) {
    if (extent_ == Extent::details) return;
    checks_.push_back([this, key, made, fault] {
      const Node member = node_[key];
      auto value = made();
      read(member, value);
      if (value != made()) member.fail(fault);
    });
  }
  void group(const char* key, const char*, auto fields) {
    if (extent_ == Extent::details) return;
    const Node member = node_[key];
    JsonReader inner(member);
    fields(inner);
    inner.finish();
  }
  void either(const char* key, std::string& text, auto fields) {
    if (node_.has(key))
      (*this)(key, text);
    else
      fields(*this);
  }
  template <class Row, class Columns>
  void columns(std::vector<Row>& rows, Columns each) {
    Column<Row> column{rows, node_};
    each(column);
  }
  void grouped(const char* key, std::vector<Verdict>& all, const char*) {
    if (extent_ == Extent::details) return;
    node_[key].each([&](const Node& item) {
      Verdict verdict;
      read(item, verdict);
      std::vector<int> ranks(1);
      if (item.has("ranks"))
        read(item["ranks"], ranks);
      else
        read(item["rank"], ranks[0]);  // version 1.x
      for (const int rank : ranks) {
        verdict.rank = rank;
        all.push_back(verdict);
      }
    });
    put_in_order(all);
  }
  void detail(const char* key, auto& x, const Meaning& meaning = {}, const char* = "") {
    JsonReader(node_).later(key, x, meaning);
  }
  void exported(const char* key, auto& x) { later(key, x); }
  void check(auto holds, const char* fault) {
    checks_.push_back([this, holds, fault] {
      if (!holds()) node_.fail(fault);
    });
  }
  void once_read(auto act) { act(); }
  /// Holds what was read against the conditions on it.
  void finish() const {
    for (const auto& check : checks_) check();
  }

 private:
  template <class Row>
  struct Column {
    std::vector<Row>& rows;
    const Node& node;
    bool first = true;

    void size(const Node& column, std::size_t count) {
      if (first) rows.resize(count);
      first = false;
      if (count != rows.size())
        column.fail(
            fmt::format("has {} values where the columns before it have {}", count, rows.size()));
    }
    void fill(const char* key, auto set) {
      const Node column = node[key];
      column.need(column.value().is_array(), "an array");
      size(column, column.size());
      auto row = rows.begin();
      column.each([&](const Node& item) { set(*row++, item); });
    }
    void operator()(const char* key, auto Row::*member) {
      fill(key, [member](Row& row, const Node& item) { row.*member = item.integer(); });
    }
    template <class T>
    void places(const char* key, T Row::*member, const std::vector<std::string>& names) {
      fill(key, [&](Row& row, const Node& item) {
        const std::int64_t place = item.integer();
        if (place < 0 || static_cast<std::size_t>(place) >= names.size())
          item.fail(fmt::format("index {} is out of range for {} names", place, names.size()));
        row.*member = static_cast<T>(place);
      });
    }
    template <class T>
    void letters(const char* key, T Row::*member, std::string_view all) {
      const Node column = node[key];
      const std::string text = column.text();
      size(column, text.size());
      for (std::size_t i = 0; i < text.size(); ++i) {
        const auto place = all.find(text[i]);
        if (place == std::string_view::npos)
          column.fail(fmt::format("'{}' is not one of the letters {}", text[i], all));
        rows[i].*member = static_cast<T>(place);
      }
    }
  };

  static MemoryKind kind(const std::string& word, const Node& node) {
    const auto known = memory_kind(word);
    if (!known)
      node.fail(fmt::format("'{}' is no kind of memory that this version of tidemark knows", word));
    return *known;
  }
  template <class Enum>
  static Enum enumerator(const Node& node) {
    const std::string word = node.text();
    if constexpr (std::is_same_v<Enum, MemoryKind>) return kind(word, node);
    const auto all = words(Enum());
    const auto match = std::ranges::find(all, word);
    if (match == all.end())
      node.fail(fmt::format("'{}' is not one of {}", word, fmt::join(all, ", ")));
    return static_cast<Enum>(match - all.begin());
  }

  template <class T>
    requires(!kInColumns<T>)
  static void compose(const Node& node, std::vector<T>& all) {
    all.clear();
    all.reserve(node.size());
    node.each([&](const Node& item) { read(item, all.emplace_back()); });
  }
  template <class T>
  static void compose(const Node& node, std::map<std::string, T>& all) {
    node.members([&](const std::string& key, const Node& member) {
      if (std::is_floating_point_v<T> && member.value().is_null())
        all[key] = std::numeric_limits<T>::quiet_NaN();
      else
        read(member, all[key]);
    });
  }
  template <class T>
  static void compose(const Node& node, std::map<MemoryKind, T>& all) {
    node.members([&](const std::string& word, const Node& member) {
      T each{};
      read(member, each);
      T& sum = all[kind(word, member)];  // reports of older versions have several words for some
      sum.peak_share += each.peak_share, sum.end += each.end;
    });
  }
  template <class T>
  static void compose(const Node& node, std::optional<T>& x) {
    if (node.value().is_null()) return;
    T value{};
    read(node, value);
    x = std::move(value);
  }
  static void compose(const Node& node, Setting& x) {
    if (node.value().is_string())
      x = node.text();
    else
      x = node.integer();
  }
  static void compose(const Node& node, auto& x) {
    node.need(node.value().is_object(), "an object");
    const ReadingAt at(node);
    JsonReader inner(node);
    tidemark::visit(x, inner);
    inner.finish();
  }

  const Node& node_;
  Extent extent_;
  std::vector<std::function<void()>> checks_;
};

}  // namespace tidemark
