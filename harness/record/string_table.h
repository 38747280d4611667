// A list of distinct texts, each known by its place.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tidemark {

class StringTable {
 public:
  /// Its place; a new one at the end where it was not there.
  std::uint32_t operator[](const std::string& name) {
    const auto [place, added] = places_.try_emplace(name, static_cast<std::uint32_t>(all_.size()));
    if (added) all_.push_back(name);
    return place->second;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
  std::unordered_map<std::string, std::uint32_t> places_;
};

}  // namespace tidemark
