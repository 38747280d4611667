#include "reports/json_memory_read.h"

#include <fmt/format.h>

#include <limits>

#include "reports/json_letters.h"

namespace tidemark {
namespace {

/// Rows of a table: its letters decide how many there are.
template <class Row, class Enum>
std::vector<Row> rows(const Node& letters, std::string_view all, Enum Row::*kind) {
  std::vector<Row> out;
  for (char letter : letters.text()) {
    const auto place = all.find(letter);
    if (place == std::string_view::npos)
      letters.fail(fmt::format("'{}' is not one of the letters {}", letter, all));
    out.emplace_back().*kind = static_cast<Enum>(place);
  }
  return out;
}

template <class Row, class Set>
void fill(const Node& node, std::vector<Row>& rows, Set set) {
  const auto values = list<std::int64_t>(node, integer);
  if (values.size() != rows.size())
    node.fail(fmt::format("has {} values where there are {} letters", values.size(), rows.size()));
  for (std::size_t i = 0; i < values.size(); ++i) set(rows[i], values[i]);
}

/// Places in a list of names.
template <class Row>
void fill_places(const Node& node, std::vector<Row>& rows, std::uint32_t Row::*member,
                 std::size_t names) {
  fill(node, rows, [&](Row& row, std::int64_t place) {
    if (place < 0 || static_cast<std::size_t>(place) >= names)
      node.fail(fmt::format("{} is no place in a list of {} names", place, names));
    row.*member = static_cast<std::uint32_t>(place);
  });
}

Segment segment(const Node& node) {
  Segment out;
  out.address = node["address"].integer();
  out.bytes = node["bytes"].integer();
  out.stream = node["stream"].text();
  out.pool = node["pool"].text();
  out.parts = rows(node["states"], kUses, &SegmentPart::use);
  fill(node["offset"], out.parts, [](SegmentPart& p, Bytes v) { p.offset = v; });
  fill(node["block_bytes"], out.parts, [](SegmentPart& p, Bytes v) { p.bytes = v; });
  fill(node["requested"], out.parts, [](SegmentPart& p, Bytes v) { p.requested = v; });
  Bytes at = 0;
  for (const SegmentPart& part : out.parts) {
    if (part.offset != at || part.bytes <= 0) node.fail("its blocks do not lie end to end");
    at += part.bytes;
  }
  if (at != out.bytes) node.fail("its blocks do not sum to its bytes");
  return out;
}

std::optional<Distance> distance(const Node& node) {
  if (node.value().is_null()) return std::nullopt;
  const auto figure = [&](const char* key) {
    return node[key].number_or_null().value_or(std::numeric_limits<double>::infinity());
  };
  return Distance{figure("ulps"), figure("absolute"), figure("relative")};
}

}  // namespace

AliveBlock read_alive(const Node& node) {
  const Node pending = node["pending"];
  if (!pending.value().is_boolean()) pending.fail("is not true or false");
  return {node["bytes"].integer(),
          node["requested"].integer(),
          node["category"].text(),
          node["op"].text(),
          list<std::int64_t>(node["shape"], integer),
          node["dtype"].text(),
          node["stream"].text(),
          pending.value().get<bool>()};
}

MemoryMap read_map(const Node& node) {
  MemoryMap out;
  out.moment = node["moment"].text();
  out.time = node["time"].integer();
  out.segments = list<Segment>(node["segments"], segment);
  out.left_out = node["left_out"]["segments"].integer();
  out.left_out_bytes = node["left_out"]["bytes"].integer();
  return out;
}

Spans read_spans(const Node& node) {
  Spans out{list<std::string>(node["streams"], text), list<std::string>(node["names"], text),
            rows(node["kinds"], kKinds, &Span::kind), node["left_out"].integer()};
  fill_places(node["stream"], out.all, &Span::stream, out.streams.size());
  fill_places(node["name"], out.all, &Span::name, out.names.size());
  fill(node["enqueued"], out.all, [](Span& s, Ns v) { s.enqueued = v; });
  fill(node["begin"], out.all, [](Span& s, Ns v) { s.begin = v; });
  fill(node["end"], out.all, [](Span& s, Ns v) { s.end = v; });
  return out;
}

EventTrace read_trace(const Node& node) {
  EventTrace out{list<std::string>(node["streams"], text), list<std::string>(node["ops"], text),
                 rows(node["actions"], kActions, &AllocatorEvent::action),
                 node["left_out"].integer()};
  fill(node["address"], out.events, [](AllocatorEvent& e, std::int64_t v) { e.address = v; });
  fill(node["bytes"], out.events, [](AllocatorEvent& e, Bytes v) { e.bytes = v; });
  fill(node["time"], out.events, [](AllocatorEvent& e, Ns v) { e.time = v; });
  fill_places(node["stream"], out.events, &AllocatorEvent::stream, out.streams.size());
  fill_places(node["op"], out.events, &AllocatorEvent::op, out.ops.size());
  return out;
}

GradientError read_gradient(const Node& node) {
  return {node["name"].text(), list<std::int64_t>(node["shape"], integer),
          distance(node["baseline"]), distance(node["reference"]), node["first"].integer()};
}

}  // namespace tidemark
