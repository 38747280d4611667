// Writer of the record's fields (fields.h) as JSON.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/record/fields.h"
#include "harness/record/json.h"

namespace tidemark {

/// Null for a number that is not finite. Whole numbers have no point: a byte count in a formula's
/// values reads as bytes, not as 8.388608e+08.
nlohmann::ordered_json number(double value);

/// Null for an empty text.
nlohmann::ordered_json text_or_null(const std::string& text);

/// Verdicts of the same assertion together, in the order of their first; by rank among themselves.
std::vector<const Verdict*> in_order(const std::vector<Verdict>& all);

class JsonWriter {
 public:
  using Json = nlohmann::ordered_json;
  using Keys = std::vector<std::string_view>;

  /// `only`: the keys to write of the outermost struct; empty: all.
  explicit JsonWriter(Extent extent = Extent::whole, Keys only = {})
      : extent_(extent), only_(std::move(only)) {}
  Json take() { return std::move(out_); }

  template <class T>
  Json value(const T& x, const Meaning& meaning = {}) const {
    if constexpr (std::is_same_v<T, std::string>) {
      return meaning.null_if_empty ? text_or_null(x) : Json(x);
    } else if constexpr (std::is_same_v<T, double>) {
      return number(x);
    } else if constexpr (std::is_enum_v<T>) {
      return name_of(x);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return x;
    } else {
      return composed(x, meaning);
    }
  }

  void title(const char*, const char* = "") {}
  void operator()(const char* key, const auto& x, const Meaning& meaning = {}, const char* = "") {
    if (wanted(key)) out_.push_back({key, value(x, meaning)});
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
    Json list = Json::array();
    for (std::size_t i = 0; i < all.size();) {
      std::size_t next = i + 1;
      while (next < all.size() && all[next] == all[i]) ++next;
      list.push_back({{"times", next - i}});
      list.back().update(value(all[i]));
      i = next;
    }
    out_.push_back({key, std::move(list)});
  }
  void exact(const char* key, const char* hex, const std::optional<double>& x) {
    const bool finite = x && std::isfinite(*x);
    out_.push_back({key, finite ? Json(*x) : Json(nullptr)});
    out_.push_back({hex, x ? Json(fmt::format("{:a}", *x)) : Json(nullptr)});
  }
  void derived(const char* key, auto made, const char*, const char*) {
    if (wanted(key)) out_.push_back({key, value(made())});
  }
  void group(const char* key, const char*, auto fields) {
    if (!wanted(key)) return;
    JsonWriter inner(extent_);
    fields(inner);
    out_.push_back({key, inner.take()});
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
    Json list = Json::array();
    std::map<std::string, std::size_t> places;  // by text
    for (const Verdict* each : in_order(all)) {
      Json one = value(*each);
      const auto [at, fresh] =
          places.emplace(one.dump(-1, ' ', false, Json::error_handler_t::replace), list.size());
      if (fresh) {
        one.push_back({"ranks", Json::array()});
        list.push_back(std::move(one));
      }
      list[at->second]["ranks"].push_back(each->rank);
    }
    out_.push_back({key, std::move(list)});
  }
  void detail(const char* key, const auto& x, const Meaning& meaning = {}, const char* = "") {
    if (extent_ != Extent::head && chosen(key))
      out_.push_back({key, JsonWriter().value(x, meaning)});
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
    Json& out;

    void operator()(const char* key, auto Row::*member) {
      Json::array_t list;
      list.reserve(rows.size());
      for (const Row& row : rows) list.emplace_back(row.*member);
      out.push_back({key, std::move(list)});
    }
    void places(const char* key, auto Row::*member, const std::vector<std::string>&) {
      (*this)(key, member);
    }
    void letters(const char* key, auto Row::*member, std::string_view all) {
      std::string text;
      for (const Row& row : rows) text += all[static_cast<std::size_t>(row.*member)];
      out.push_back({key, std::move(text)});
    }
  };

  template <class T>
    requires(!kInColumns<T>)
  Json composed(const std::vector<T>& all, const Meaning& meaning) const {
    Json out = Json::array();
    for (const T& each : all) out.push_back(value(each, meaning));
    return out;
  }
  template <class T>
  Json composed(const std::map<std::string, T>& all, const Meaning& meaning) const {
    Json out = Json::object();
    for (const auto& [key, each] : all) out.push_back({key, value(each, meaning)});
    return out;
  }
  template <class T>
  Json composed(const std::map<MemoryKind, T>& all, const Meaning& meaning) const {
    Json out = Json::object();
    for (const auto& [kind, each] : all) out.push_back({name_of(kind), value(each, meaning)});
    return out;
  }
  template <class T>
  Json composed(const std::optional<T>& x, const Meaning& meaning) const {
    return x ? value(*x, meaning) : Json(nullptr);
  }
  static Json composed(const Setting& x, const Meaning&) {
    return std::visit([](const auto& is) { return Json(is); }, x);
  }
  template <class T>
  Json composed(const T& x, const Meaning&) const {
    JsonWriter inner(extent_);
    tidemark::visit(const_cast<T&>(x), inner);  // `visit` serves reading too; this only looks
    return inner.take();
  }

  bool chosen(std::string_view key) const {
    return only_.empty() || std::ranges::find(only_, key) != only_.end();
  }
  bool wanted(std::string_view key) const { return extent_ != Extent::details && chosen(key); }

  Extent extent_;
  Keys only_;
  Json out_ = Json::object();
};

/// A struct of the record as JSON.
nlohmann::ordered_json json_of(const auto& x, Extent extent = Extent::whole) {
  return JsonWriter(extent).value(x);
}
/// Some of its keys.
template <class T>
nlohmann::ordered_json json_of(const T& x, JsonWriter::Keys only) {
  JsonWriter writer(Extent::whole, std::move(only));
  tidemark::visit(const_cast<T&>(x), writer);
  return writer.take();
}

}  // namespace tidemark
