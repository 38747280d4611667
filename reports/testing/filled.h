// A report in which every field of the record holds a value of its own: made from the fields
// (harness/record/fields.h), so that it has a new one as soon as it is named there.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/record/fields.h"

namespace tidemark::testing {

class Filler {
 public:
  explicit Filler(std::int64_t& last) : last_(last) {}

  template <class T>
  void value(T& x, const Meaning& meaning, const std::string& key) {
    if constexpr (std::is_same_v<T, std::string>) {
      x = text(meaning, key);
    } else if constexpr (std::is_same_v<T, bool>) {
      x = true;
    } else if constexpr (std::is_same_v<T, double>) {
      x = static_cast<double>(++last_) + 0.5;
    } else if constexpr (std::is_enum_v<T>) {
      x = enumerators(T()).back();
    } else if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(++last_);
    } else {
      composed(x, meaning, key);
    }
  }

  void title(const char*, const char* = "") {}
  void operator()(const char* key, auto& x, const Meaning& meaning = {}, const char* = "") {
    value(x, meaning, key);
  }
  void later(const char* key, auto& x, const Meaning& meaning = {}, const char* = "") {
    value(x, meaning, key);
  }
  void optional(const char* key, auto& x, const Meaning& meaning = {}, const auto&...) {
    value(x, meaning, key);
  }
  template <class T>
  void keyed(const char* key, std::vector<T>& all, const char*) {
    value(all, {}, key);
    for (T& each : all) each.name = text({}, key);
  }
  template <class T>
  void runs(const char* key, std::vector<T>& all, const char*) {
    value(all, {}, key);
    all.push_back(all.back());
  }
  void exact(const char* key, const char*, std::optional<double>& x) { value(x, {}, key); }
  void derived(const char*, auto, const char*, const char*) {}
  void group(const char*, const char*, auto fields) { fields(*this); }
  void either(const char* key, std::string& text, auto fields) {
    if (++last_ % 2 == 0)
      value(text, {}, key);
    else
      fields(*this);
  }
  template <class Row, class Columns>
  void columns(std::vector<Row>& rows, Columns each) {
    rows.resize(3);
    Column<Row> column{rows, last_};
    each(column);
  }
  void grouped(const char* key, std::vector<Verdict>& all, const char*) { value(all, {}, key); }
  void details(auto fields) { fields(*this); }
  void exported(auto fields) { fields(*this); }
  void check(auto, const char*) {}

 private:
  template <class Row>
  struct Column {
    std::vector<Row>& rows;
    std::int64_t& last;
    template <class T>
    void operator()(const char*, T Row::*member) {
      for (Row& row : rows) row.*member = static_cast<T>(++last);
    }
    template <class T>
    void places(const char*, T Row::*member, const std::vector<std::string>& names) {
      for (Row& row : rows) row.*member = static_cast<T>(++last % std::ssize(names));
    }
    template <class T>
    void letters(const char*, T Row::*member, std::string_view all) {
      for (Row& row : rows) row.*member = static_cast<T>(++last % std::ssize(all));
    }
  };

  std::string text(const Meaning& meaning, const std::string& key) {
    if (meaning.name == meaning::verdict.name) return "run";
    if (meaning.name != nullptr) {
      const auto schema = nlohmann::json::parse(meaning.schema);
      if (schema.contains("enum")) return schema["enum"].back();
    }
    return key + std::to_string(++last_);
  }
  void composed(std::vector<Sample>& all, const Meaning&, const std::string&) {
    tidemark::visit(all, *this);
  }
  template <class T>
  void composed(std::vector<T>& all, const Meaning& meaning, const std::string& key) {
    all.resize(2);
    for (T& each : all) value(each, meaning, key);
  }
  template <class T>
  void composed(std::map<std::string, T>& all, const Meaning& meaning, const std::string& key) {
    for (int i = 0; i < 2; ++i) value(all[text({}, key)], meaning, key);
  }
  template <class T>
  void composed(std::optional<T>& x, const Meaning& meaning, const std::string& key) {
    T inner{};
    value(inner, meaning, key);
    x = std::move(inner);
  }
  void composed(Setting& x, const Meaning&, const std::string& key) {
    if (++last_ % 2 == 0)
      x = last_;
    else
      x = text({}, key);
  }
  void composed(auto& x, const Meaning&, const std::string&) { tidemark::visit(x, *this); }

  std::int64_t& last_;
};

inline Report filled_report() {
  std::int64_t last = 0;
  Filler filler(last);
  Report report;
  filler.value(report.run, {}, "run");
  filler.value(report.trials, {}, "trials");
  filler.value(report.programs, {}, "programs");
  for (ProgramRecord& program : report.programs) {  // the parts sum to what is active
    program.alive->active = 0;
    for (const AlivePart& part : program.alive->parts) program.alive->active += part.bytes;
  }
  for (TrialRecord& trial : report.trials)  // two conditions: on paths, and blocks lie end to end
    for (VariantRecord& variant : trial.variants) {
      for (FileBeside& file : variant.files) file.path = "loss/" + file.path;
      for (RankRecord& rank : variant.ranks)
        for (Segment& segment : rank.map.segments) {
          segment.bytes = 0;
          for (SegmentPart& part : segment.parts) {
            part.offset = segment.bytes;
            segment.bytes += part.bytes;
          }
        }
    }
  return report;
}

}  // namespace tidemark::testing
