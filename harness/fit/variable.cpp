#include "harness/fit/variable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "harness/errors.h"
#include "harness/fit/config_file.h"
#include "harness/record/scan.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMost = 1 << 20;  // values of a range

[[noreturn]] void fail(const std::string& text, const std::string& what) {
  throw UsageError("fit: --vary " + text + ": " + what);
}

struct Range {
  std::int64_t first = 0, last = 0;
  std::optional<std::int64_t> step, factor;
};

/// "1..64", "8..64:8", "1..64:x2".
std::optional<Range> range_of(std::string_view text) {
  Scan scan(text);
  Range out;
  const auto first = scan.number();
  const bool dots = scan.take("..");
  const auto last = scan.number();
  if (!first || !dots || !last) return std::nullopt;
  out.first = *first, out.last = *last;
  if (scan.take(":")) {
    const bool doubles = scan.take("x");
    const auto by = scan.rest().starts_with('-') ? std::nullopt : scan.number(9);
    if (!by) return std::nullopt;
    (doubles ? out.factor : out.step) = by;
  }
  return scan.done() ? std::optional(out) : std::nullopt;
}

std::vector<std::string> values_of(const std::string& text, const Range& range) {
  const auto [first, last, step, factor] = range;
  if (first > last) fail(text, fmt::format("the range is empty: {} is above {}", first, last));
  if (step.value_or(1) < 1 || (factor && (*factor < 2 || first < 1)))
    fail(text, "the values do not grow: write 8..64:8 or, from 1 on, 1..64:x2");
  std::vector<std::string> values;
  for (std::int64_t value = first; value <= last;) {
    if (values.size() == kMost) fail(text, "has more than 1,048,576 values: give a step");
    values.push_back(std::to_string(value));
    if (factor && value > last / *factor) break;
    value = factor ? value * *factor : value + step.value_or(1);
  }
  return values;
}

bool is_name(std::string_view text) {
  constexpr std::string_view kBegin = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  Scan scan(text);
  if (scan.all_of(kBegin).empty()) return false;
  while (!scan.done())
    if (scan.all_of(kBegin).empty() && scan.all_of(kDecimal).empty() && !scan.take("-"))
      return false;
  return true;
}

std::vector<std::string> list(const std::string& text, const std::string& values) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= values.size();) {
    const std::size_t comma = std::min(values.find(',', at), values.size());
    all.push_back(values.substr(at, comma - at));
    at = comma + 1;
  }
  if (values.empty() || std::ranges::count(all, "") > 0)
    fail(text, "a value is empty: write NAME=1..64 or NAME=a,b,c");
  if (std::set<std::string>(all.begin(), all.end()).size() != all.size())
    fail(text, "names a value twice");
  return all;
}

std::string placeholder(const Variable& variable) { return "{" + variable.values.name + "}"; }

bool has_word(const Variable& variable, const std::vector<std::string>& program) {
  return std::ranges::any_of(program, [&](const std::string& word) {
    return variable.place == Variable::Place::file
               ? word.find(variable.file.string()) != std::string::npos
               : word.find(placeholder(variable)) != std::string::npos;
  });
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

}  // namespace

Variable parse_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(text,
         "write NAME=1..64 or NAME=a,b,c (env:NAME=... for an environment variable, "
         "FILE:KEY=... for a key of a TOML or JSON file)");
  Variable out;
  std::string name = text.substr(0, equals);
  const std::string values = text.substr(equals + 1);
  if (name.starts_with("env:")) {
    out.place = Variable::Place::environment;
    name = out.key = name.substr(4);
  } else if (const std::size_t colon = name.rfind(':'); colon != std::string::npos) {
    out.place = Variable::Place::file;
    out.file = name.substr(0, colon);
    name = out.key = name.substr(colon + 1);
    if (!fs::is_regular_file(out.file)) fail(text, out.file.string() + " is not a file");
    check_config_file(out.file, out.key);
  }
  if (out.place != Variable::Place::file && !is_name(name))
    fail(text, "a name has letters, digits, _ and -");
  out.values.name = name;
  const std::optional<Range> range = range_of(values);
  out.values.searched = range.has_value();
  out.values.values = range ? values_of(text, *range) : list(text, values);
  return out;
}

void check_variables(const std::vector<Variable>& all, const std::vector<std::string>& program) {
  std::set<std::string> names;
  std::string searched;
  for (const Variable& each : all) {
    const std::string& name = each.values.name;
    if (!names.insert(name).second) throw UsageError("fit: --vary names " + name + " twice");
    if (each.place == Variable::Place::word && !has_word(each, program))
      throw UsageError(fmt::format(
          "fit: --vary {}: no word of the command has {}: write it where the value goes, as in "
          "--batch {}",
          name, placeholder(each), placeholder(each)));
    if (each.place == Variable::Place::file && !has_word(each, program))
      throw UsageError(
          fmt::format("fit: --vary {}: no word of the command names {}", name, each.file.string()));
    if (!each.values.searched) continue;
    if (!searched.empty())
      throw UsageError(
          fmt::format("fit: --vary: {} and {} are both ranges, and one is searched at a time: "
                      "write one of them "
                      "as a list",
                      searched, name));
    searched = name;
  }
}

Substituted substitute(const std::vector<Variable>& all, const FitValues& values,
                       const std::vector<std::string>& program, const fs::path& folder) {
  Substituted out{program, {}};
  std::map<fs::path, std::map<std::string, std::string>> files;
  for (const Variable& each : all) {
    const std::string& value = values.at(each.values.name);
    if (each.place == Variable::Place::environment) out.environment[each.key] = value;
    if (each.place == Variable::Place::file) files[each.file][each.key] = value;
    if (each.place == Variable::Place::word)
      for (std::string& word : out.program) replace_all(word, placeholder(each), value);
  }
  for (const auto& [file, keys] : files) {
    const fs::path copy = folder / file.filename();
    write_config_file(file, keys, copy);
    for (std::string& word : out.program) replace_all(word, file.string(), copy.string());
  }
  return out;
}

std::vector<FitValues> combinations(const std::vector<Variable>& all) {
  std::vector<FitValues> out{{}};
  for (const Variable& each : all) {
    if (each.values.searched) continue;
    std::vector<FitValues> more;
    for (const FitValues& before : out)
      for (const std::string& value : each.values.values) {
        more.push_back(before);
        more.back()[each.values.name] = value;
      }
    out = std::move(more);
  }
  return out;
}

}  // namespace tidemark
