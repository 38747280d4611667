#include "harness/memory/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>

#include "harness/memory/error.h"
#include "harness/record/one_line.h"

namespace tidemark {
namespace {

using Values = std::map<std::string, std::string>;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// "key:value,key:[1:2,3:4]" by key.
Values parsed(const std::string& text) {
  Values out;
  std::size_t depth = 0, begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    const std::string item = text.substr(begin, i - begin);
    if (const auto colon = item.find(':'); colon != std::string::npos)
      out[trimmed(item.substr(0, colon))] = trimmed(item.substr(colon + 1));
    begin = i + 1;
  }
  return out;
}

/// What is in effect by the text of the variable, and by what the allocator says.
Values values_of(const Snapshot& snapshot) {
  Values values, in_effect;
  for (const auto& [name, value] : snapshot.settings) {
    if (name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF")
      values.merge(parsed(value));
    else
      in_effect[name] = value;
  }
  // The text is that of the last call; what the allocator says to be in effect is from all of them.
  const auto bytes = std::strtoll(in_effect["max_split_size"].c_str(), nullptr, 10);
  if (bytes > 0 && bytes < INT64_MAX) values["max_split_size_mb"] = std::to_string(bytes >> 20);
  for (const char* name :
       {"roundup_power2_divisions", "garbage_collection_threshold", "expandable_segments"})
    if (const auto& value = in_effect[name]; !value.empty()) values[name] = value;
  return values;
}

/// The value of roundup_power2_divisions, as in PYTORCH_CUDA_ALLOC_CONF: "[1:4,2:4]", by MiB.
/// Empty where no size is divided.
std::string divisions(const Tree& tree, Tree::Id dictionary) {
  const auto items = tree.items(dictionary);
  std::string out;
  bool any = false;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (tree[items[i]].type != Tree::Type::text || tree[items[i + 1]].type != Tree::Type::integer)
      return "";
    const std::int64_t value = tree[items[i + 1]].integer;
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", tree.text_of(items[i]), value);
    any |= value != 0;
  }
  return any ? "[" + out + "]" : "";
}

constexpr std::array kDeciding{"large_segment_size_mb", "max_non_split_rounding_mb",
                               "max_split_size_mb", "roundup_power2_divisions"};

AllocatorSettings settings_of(Values values) {
  AllocatorSettings out;
  out.expandable = values["expandable_segments"] == "True";
  out.threshold = values["garbage_collection_threshold"];
  out.collects = std::strtod(out.threshold.c_str(), nullptr) > 0;
  if (!out.collects) out.threshold.clear();
  out.fraction = std::strtod(values["per_process_memory_fraction"].c_str(), nullptr);
  for (const char* name : kDeciding)
    if (const auto& value = values[name]; !value.empty())
      out.text += fmt::format("{}{}:{}", out.text.empty() ? "" : ",", name, value);
  return out;
}

}  // namespace

std::string AllocatorSettings::all_text() const {
  if (threshold.empty()) return text;
  return fmt::format("{}{}garbage_collection_threshold:{}", text, text.empty() ? "" : ",",
                     threshold);
}

std::vector<std::pair<std::string, std::string>> settings_in(const Tree& tree,
                                                             Tree::Id dictionary) {
  using Type = Tree::Type;
  std::vector<std::pair<std::string, std::string>> out;
  if (tree[dictionary].type != Type::dictionary) return out;
  const auto items = tree.items(dictionary);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (tree[items[i]].type != Type::text) continue;
    const auto& value = tree[items[i + 1]];
    std::string shown;
    if (value.type == Type::text) shown = tree.text_of(items[i + 1]);
    if (value.type == Type::integer) shown = std::to_string(value.integer);
    if (value.type == Type::boolean) shown = value.integer != 0 ? "True" : "False";
    if (value.type == Type::real) shown = fmt::format("{}", value.real);
    if (value.type == Type::dictionary) shown = divisions(tree, items[i + 1]);
    if (!shown.empty()) out.emplace_back(tree.text_of(items[i]), shown);
  }
  return out;
}

AllocatorSettings allocator_settings(const Snapshot& snapshot) {
  return settings_of(values_of(snapshot));
}

AllocatorSettings changed_settings(const Snapshot& snapshot, const std::string& changes) {
  constexpr std::array kOthers{"expandable_segments", "garbage_collection_threshold",
                               "per_process_memory_fraction"};
  Values values = parsed(changes);
  if (values.empty() && !trimmed(changes).empty())
    throw SnapshotError(
        fmt::format("'{}' is no setting of PyTorch's allocator: KEY:VALUE", one_line(changes)));
  for (const auto& [name, value] : values) {
    const auto is = [&](const char* one) { return name == one; };
    if (std::ranges::none_of(kDeciding, is) && std::ranges::none_of(kOthers, is))
      throw SnapshotError(fmt::format(
          "'{}' is none of the settings that decide what PyTorch's allocator reserves: {}, {}",
          one_line(name), fmt::join(kDeciding, ", "), fmt::join(kOthers, ", ")));
  }
  values.merge(values_of(snapshot));
  return settings_of(std::move(values));
}

}  // namespace tidemark
