#include "harness/memory/recording.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/json_node.h"

namespace tidemark {
namespace {

constexpr std::int64_t kHighest = std::int64_t{1} << 46;  // of an address, and of a size

std::int64_t bounded(const Node& node) {
  const std::int64_t value = node.integer();
  if (value < 0 || value > kHighest) node.fail(fmt::format("{} is out of range", value));
  return value;
}

BlockState state(const Node& node) {
  const std::string name = node.text();
  for (const auto each : {BlockState::allocated, BlockState::pending_free, BlockState::inactive})
    if (name == name_of(each)) return each;
  node.fail(fmt::format("'{}' is not a state of a block", name));
}

AllocatorAction action(const Node& node) {
  const std::string name = node.text();
  if (const auto known = action_named(name)) return *known;
  node.fail(fmt::format("'{}' is not an action", name));
}

Segment segment(const Node& node) {
  Segment out;
  out.address = bounded(node["address"]);
  out.total_size = bounded(node["size"]);
  out.type = node["type"].text();
  out.stream = bounded(node["stream"]);
  if (node.has("expandable")) out.expandable = node["expandable"].boolean();
  std::int64_t at = out.address;
  node["blocks"].each([&](const Node& block) {
    const JsonValue row = block.value();
    if (!row.is_array() || row.size() != 3) block.fail("is not [size, state, requested]");
    const auto item = [&](std::size_t i) { return Node(row[i], "of a block"); };
    const std::int64_t size = bounded(item(0));
    out.blocks.push_back({at, size, std::min(bounded(item(2)), size), state(item(1))});
    at += size;
  });
  if (at != out.address + out.total_size)
    node.fail(
        fmt::format("its blocks sum to {} bytes, not to {}", at - out.address, out.total_size));
  return out;
}

}  // namespace

bool is_recording(std::string_view json) {
  return json.find("\"segments_at_end\"") != std::string_view::npos;
}

Snapshot recording(std::string_view text) {
  try {
    const auto json = json_of_others(text, "recording");
    if (!json) throw SnapshotError("is not JSON, or cut off");
    const Node root(json->root(), "recording");
    Snapshot out;
    out.segments = list<Segment>(root["segments_at_end"], segment);
    const auto actions = list<AllocatorAction>(root["actions"], action);
    if (root.has("settings"))
      out.settings.emplace_back("PYTORCH_CUDA_ALLOC_CONF", root["settings"].text());
    const Node events = root["events"];
    auto& trace = out.traces.emplace_back();
    trace.reserve(events["action"].size());
    events["action"].each([&](const Node& node) {
      const std::uint64_t which = node.natural();
      if (which >= actions.size()) node.fail(fmt::format("there is no action {}", which));
      trace.emplace_back().action = actions[which];
    });
    const auto column = [&](const char* name, auto put) {
      const Node values = events[name];
      if (!values.value().is_array() || values.size() != trace.size())
        values.fail(fmt::format("has not {} values, as 'action' has", trace.size()));
      std::size_t i = 0;
      values.each([&](const Node& value) { put(trace[i++], value); });
    };
    column("size", [](AllocatorEvent& e, const Node& value) { e.size = bounded(value); });
    column("stream", [](AllocatorEvent& e, const Node& value) { e.stream = bounded(value); });
    column("address", [](AllocatorEvent& e, const Node& value) {
      if (!value.value().is_null()) e.address = bounded(value);
    });
    return out;
  } catch (const SnapshotError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw SnapshotError(error.what());
  }
}

}  // namespace tidemark
