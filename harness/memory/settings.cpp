#include "harness/memory/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

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

}  // namespace

AllocatorSettings allocator_settings(const Snapshot& snapshot) {
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
  AllocatorSettings out;
  out.expandable = values["expandable_segments"] == "True";
  out.collects = std::strtod(values["garbage_collection_threshold"].c_str(), nullptr) > 0;
  for (const char* name : {"large_segment_size_mb", "max_non_split_rounding_mb",
                           "max_split_size_mb", "roundup_power2_divisions"})
    if (const auto& value = values[name]; !value.empty())
      out.text += fmt::format("{}{}:{}", out.text.empty() ? "" : ",", name, value);
  return out;
}

}  // namespace tidemark
