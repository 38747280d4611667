// The page's data of a rank's blocks, maps and spans: texts by their places, columns as
// differences.
#pragma once

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "harness/record/record.h"

namespace tidemark {

/// Every text once, by its place.
class Strings {
 public:
  std::size_t operator[](const std::string& text) {
    const auto [found, added] = places_.try_emplace(text, all_.size());
    if (added) all_.push_back(text);
    return found->second;
  }
  nlohmann::ordered_json take() { return std::move(all_); }

 private:
  std::unordered_map<std::string, std::size_t> places_;
  nlohmann::ordered_json::array_t all_;
};

/// [bytes, requested, category, op, [sizes], dtype, stream, pending]
nlohmann::ordered_json page_block(const AliveBlock& block, Strings& strings);
/// {moment, time, left_out, left_out_bytes, segments: [[address, bytes, stream, pool, states,
/// [block bytes], [requested of those not free]]]}, of `most` blocks at most.
nlohmann::ordered_json page_map(const MemoryMap& map, std::size_t most, Strings& strings);
/// {lanes, in_all, kinds, lane, name, begin, wait, length}: begin as differences, `wait` from the
/// host's enqueueing to begin. What races name stays, whatever `most` is; `races` get the new
/// places.
nlohmann::ordered_json page_spans(const Spans& spans, std::size_t most, std::vector<Race>& races,
                                  Strings& strings);
/// [name, [sizes], first, [ulps, absolute, relative] or null, the same of the reference]
nlohmann::ordered_json page_gradient(const GradientError& gradient, Strings& strings);

}  // namespace tidemark
