// Writer of the record's fields (fields.h) as JSON.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/record/fields.h"
#include "harness/record/json.h"
#include "harness/record/json_sink.h"

namespace tidemark {

/// Null for a number that is not finite. Whole numbers have no point: a byte count in a formula's
/// values reads as bytes, not as 8.388608e+08.
nlohmann::ordered_json number(double value);

/// Null for an empty text.
nlohmann::ordered_json text_or_null(const std::string& text);

/// Verdicts of the same assertion together, in the order of their first; by rank among themselves.
std::vector<const Verdict*> in_order(const std::vector<Verdict>& all);

nlohmann::ordered_json json_of(const auto& x, Extent extent = Extent::whole);

class JsonWriter {
 public:
  using Json = nlohmann::ordered_json;
  using Keys = std::vector<std::string_view>;

  /// `only`: the keys to write of the outermost struct; empty: all.
  explicit JsonWriter(JsonSink& out, Extent extent = Extent::whole, Keys only = {})
      : out_(out), extent_(extent), only_(std::move(only)) {}

  template <class T>
  void value(const T& x, const Meaning& meaning = {}) const {
    if constexpr (std::is_same_v<T, std::string>) {
      out_.put(meaning.null_if_empty ? text_or_null(x) : Json(x));
    } else if constexpr (std::is_same_v<T, double>) {
      out_.put(number(x));
    } else if constexpr (std::is_enum_v<T>) {
      out_.put(name_of(x));
    } else if constexpr (std::is_arithmetic_v<T>) {
      out_.put(x);
    } else {
      compose(x, meaning);
    }
  }
  /// The fields of a struct, without its brackets.
  template <class T>
  void fields(const T& x) {
    tidemark::visit(const_cast<T&>(x), *this);  // `visit` serves reading too; this only looks
  }

  void title(const char*, const char* = "") {}
  void operator()(const char* key, const auto& x, const Meaning& meaning = {}, const char* = "") {
    if (wanted(key)) out_.key(key), value(x, meaning);
  }
  void later(const char* key, const auto& x, const Meaning& meaning = {}, const char* = "") {
    (*this)(key, x, meaning);
  }
  template <class T>
  void optional(const char* key, const T& x, const Meaning& meaning = {}, const char* = "",
                const std::type_identity_t<T>& usual = {}) {
    if (x != usual) (*this)(key, x, meaning);
  }
  template <class T>
  void optional(const char* key, const std::optional<T>& x, const Meaning& meaning = {},
                const char* = "") {
    if (x) (*this)(key, *x, meaning);
  }
  template <class T>
  void runs(const char* key, const std::vector<T>& all, const char*) {
    if (!wanted(key)) return;
    out_.key(key), out_.open('[');
    for (std::size_t i = 0; i < all.size();) {
      std::size_t next = i + 1;
      while (next < all.size() && all[next] == all[i]) ++next;
      out_.open('{'), out_.key("times"), out_.put(next - i);
      JsonWriter(out_, extent_).fields(all[i]);
      out_.close();
      i = next;
    }
    out_.close();
  }
  void exact(const char* key, const char* hex, const std::optional<double>& x) {
    const bool finite = x && std::isfinite(*x);
    out_.key(key), out_.put(finite ? Json(*x) : Json(nullptr));
    out_.key(hex), out_.put(x ? Json(fmt::format("{:a}", *x)) : Json(nullptr));
  }
  void derived(const char* key, auto made, const char*, const char*) {
    if (wanted(key)) out_.key(key), value(made());
  }
  void group(const char* key, const char*, auto fields) {
    if (!wanted(key)) return;
    out_.key(key), out_.open('{');
    JsonWriter inner(out_, extent_);
    fields(inner);
    out_.close();
  }
  void either(const char* key, const std::string& text, auto fields) {
    if (text.empty())
      fields(*this);
    else
      (*this)(key, text);
  }
  template <class Row, class Columns>
  void columns(const std::vector<Row>& rows, Columns each) {
    Column<Row> column{rows, out_};
    each(column);
  }
  void grouped(const char* key, const std::vector<Verdict>& all, const char*) {
    if (!wanted(key)) return;
    out_.key(key), out_.open('[');
    const std::vector<const Verdict*> ordered = in_order(all);
    for (std::size_t begin = 0, end = 0; begin < ordered.size(); begin = end) {
      while (end < ordered.size() && ordered[end]->variant == ordered[begin]->variant &&
             ordered[end]->name == ordered[begin]->name)
        ++end;
      assertion(std::span(ordered).subspan(begin, end - begin));
    }
    out_.close();
  }
  void detail(const char* key, const auto& x, const Meaning& meaning = {}, const char* = "") {
    if (extent_ != Extent::head && chosen(key)) out_.key(key), JsonWriter(out_).value(x, meaning);
  }
  void exported(const char* key, const auto& x) {
    if (extent_ == Extent::whole) detail(key, x);
  }
  void check(auto, const char*) {}
  void once_read(auto) {}

 private:
  template <class Row>
  struct Column {
    const std::vector<Row>& rows;
    JsonSink& out;

    void operator()(const char* key, auto Row::*member) {
      out.key(key), out.open('[');
      for (const Row& row : rows) out.put(row.*member);
      out.close();
    }
    void places(const char* key, auto Row::*member, const std::vector<std::string>&) {
      (*this)(key, member);
    }
    void letters(const char* key, auto Row::*member, std::string_view all) {
      std::string text;
      for (const Row& row : rows) text += all[static_cast<std::size_t>(row.*member)];
      out.key(key), out.put(text);
    }
  };

  /// Verdicts of one assertion: those that differ in the rank alone are one.
  void assertion(std::span<const Verdict* const> all) {
    struct Alike {
      const Verdict* first;
      std::vector<int> ranks;
    };
    std::vector<Alike> groups;
    std::map<std::string, std::size_t> places;  // by text
    for (const Verdict* each : all) {
      const auto [at, fresh] =
          places.emplace(all.size() > 1 ? line_of(json_of(*each)) : "", groups.size());
      if (fresh) groups.push_back({each, {}});
      groups[at->second].ranks.push_back(each->rank);
    }
    for (const Alike& one : groups) {
      out_.open('{');
      JsonWriter(out_, extent_).fields(*one.first);
      out_.key("ranks"), value(one.ranks);
      out_.close();
    }
  }

  template <class T>
    requires(!kInColumns<T>)
  void compose(const std::vector<T>& all, const Meaning& meaning) const {
    out_.open('[');
    for (const T& each : all) value(each, meaning);
    out_.close();
  }
  template <class T>
  void compose(const std::map<std::string, T>& all, const Meaning& meaning) const {
    out_.open('{');
    for (const auto& [key, each] : all) out_.key(key), value(each, meaning);
    out_.close();
  }
  template <class T>
  void compose(const std::map<MemoryKind, T>& all, const Meaning& meaning) const {
    out_.open('{');
    for (const auto& [kind, each] : all) out_.key(name_of(kind)), value(each, meaning);
    out_.close();
  }
  template <class T>
  void compose(const std::optional<T>& x, const Meaning& meaning) const {
    if (x)
      value(*x, meaning);
    else
      out_.put(nullptr);
  }
  void compose(const Setting& x, const Meaning&) const {
    std::visit([&](const auto& is) { out_.put(is); }, x);
  }
  template <class T>
  void compose(const T& x, const Meaning&) const {
    out_.open('{');
    JsonWriter(out_, extent_).fields(x);
    out_.close();
  }

  bool chosen(std::string_view key) const {
    return only_.empty() || std::ranges::find(only_, key) != only_.end();
  }
  bool wanted(std::string_view key) const { return extent_ != Extent::details && chosen(key); }

  JsonSink& out_;
  Extent extent_;
  Keys only_;
};

/// A struct of the record as JSON.
nlohmann::ordered_json json_of(const auto& x, Extent extent) {
  JsonTree out;
  JsonWriter(out, extent).value(x);
  return out.take();
}
/// Some of its keys.
template <class T>
nlohmann::ordered_json json_of(const T& x, JsonWriter::Keys only) {
  JsonTree out;
  out.open('{');
  JsonWriter(out, Extent::whole, std::move(only)).fields(x);
  out.close();
  return out.take();
}

}  // namespace tidemark
