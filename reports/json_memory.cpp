// Blocks, maps, spans, events and gradients as JSON: columns, so that thousands stay a few lines;
// kinds and states as a letter each.
#include <nlohmann/json.hpp>

#include "reports/json_letters.h"
#include "reports/json_parts.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

template <class Items, class Get>
Json column(const Items& items, Get get) {
  Json out = Json::array();
  for (const auto& item : items) out.push_back(get(item));
  return out;
}

template <class Items, class Get>
std::string letters(const Items& items, std::string_view all, Get get) {
  std::string out;
  for (const auto& item : items) out += all[static_cast<std::size_t>(get(item))];
  return out;
}

Json segment_json(const Segment& segment) {
  const auto& parts = segment.parts;
  return {{"address", segment.address},
          {"bytes", segment.bytes},
          {"stream", segment.stream},
          {"pool", segment.pool},
          {"offset", column(parts, [](const SegmentPart& p) { return p.offset; })},
          {"block_bytes", column(parts, [](const SegmentPart& p) { return p.bytes; })},
          {"requested", column(parts, [](const SegmentPart& p) { return p.requested; })},
          {"states", letters(parts, kUses, [](const SegmentPart& p) { return p.use; })}};
}

Json distance_json(const std::optional<Distance>& distance) {
  if (!distance) return nullptr;
  return {{"ulps", number(distance->ulps)},
          {"absolute", number(distance->absolute)},
          {"relative", number(distance->relative)}};
}

}  // namespace

Json alive_json(const AliveBlock& b) {
  return {{"bytes", b.bytes},   {"requested", b.requested}, {"category", b.category},
          {"op", b.op},         {"shape", b.shape},         {"dtype", b.dtype},
          {"stream", b.stream}, {"pending", b.pending}};
}

Json map_json(const MemoryMap& map) {
  return {{"moment", map.moment},
          {"time", map.time},
          {"segments", column(map.segments, segment_json)},
          {"left_out", {{"segments", map.left_out}, {"bytes", map.left_out_bytes}}}};
}

Json spans_json(const Spans& s) {
  return {{"streams", s.streams},
          {"names", s.names},
          {"kinds", letters(s.all, kKinds, [](const Span& p) { return p.kind; })},
          {"stream", column(s.all, [](const Span& p) { return p.stream; })},
          {"name", column(s.all, [](const Span& p) { return p.name; })},
          {"enqueued", column(s.all, [](const Span& p) { return p.enqueued; })},
          {"begin", column(s.all, [](const Span& p) { return p.begin; })},
          {"end", column(s.all, [](const Span& p) { return p.end; })},
          {"left_out", s.left_out}};
}

Json trace_json(const EventTrace& t) {
  return {
      {"streams", t.streams},
      {"ops", t.ops},
      {"actions", letters(t.events, kActions, [](const AllocatorEvent& e) { return e.action; })},
      {"address", column(t.events, [](const AllocatorEvent& e) { return e.address; })},
      {"bytes", column(t.events, [](const AllocatorEvent& e) { return e.bytes; })},
      {"time", column(t.events, [](const AllocatorEvent& e) { return e.time; })},
      {"stream", column(t.events, [](const AllocatorEvent& e) { return e.stream; })},
      {"op", column(t.events, [](const AllocatorEvent& e) { return e.op; })},
      {"left_out", t.left_out}};
}

Json gradient_json(const GradientError& g) {
  return {{"name", g.name},
          {"shape", g.shape},
          {"baseline", distance_json(g.baseline)},
          {"reference", distance_json(g.reference)},
          {"first", g.first}};
}

}  // namespace tidemark
