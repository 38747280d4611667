#include "reports/page_memory.h"

#include <algorithm>

#include "harness/record/meaning.h"
#include "reports/json_parts.h"
#include "reports/thin.h"

namespace tidemark {
namespace {

using PageJson = nlohmann::ordered_json;

PageJson distance_row(const std::optional<Distance>& distance) {
  if (!distance) return nullptr;
  return {number(distance->ulps), number(distance->absolute), number(distance->relative)};
}

PageJson segment_row(const Segment& segment, Strings& strings) {
  std::string states;
  PageJson bytes = PageJson::array(), requested = PageJson::array();
  for (const SegmentPart& part : segment.parts) {
    states += kUses[static_cast<std::size_t>(part.use)];
    bytes.push_back(part.bytes);
    if (part.use != BlockUse::free) requested.push_back(part.requested);
  }
  return {segment.address, segment.bytes,    strings[segment.stream], strings[segment.pool],
          states,          std::move(bytes), std::move(requested)};
}

}  // namespace

PageJson page_block(const AliveBlock& b, Strings& strings) {
  return {b.bytes, b.requested,      strings[b.category], strings[b.op],
          b.shape, strings[b.dtype], strings[b.stream],   b.pending ? 1 : 0};
}

PageJson page_map(const MemoryMap& map, std::size_t most, Strings& strings) {
  PageJson segments = PageJson::array();
  Bytes kept = 0, all = map.left_out_bytes;
  for (const Segment* segment : thin(map, most)) {
    segments.push_back(segment_row(*segment, strings));
    kept += segment->bytes;
  }
  for (const Segment& segment : map.segments) all += segment.bytes;
  const auto left_out =
      static_cast<std::int64_t>(map.segments.size() - segments.size()) + map.left_out;
  return {{"moment", strings[map.moment]},
          {"time", map.time},
          {"left_out", left_out},
          {"left_out_bytes", all - kept},
          {"segments", std::move(segments)}};
}

PageJson page_spans(const Spans& spans, std::size_t most, std::vector<Race>& races,
                    Strings& strings) {
  std::vector<std::int64_t> wanted;
  for (const Race& race : races)
    for (const Access* side : {&race.first, &race.second})
      if (side->span >= 0) wanted.push_back(side->span);
  const std::vector<std::size_t> kept = thin(spans, most, wanted);
  for (Race& race : races) {
    for (Access* side : {&race.first, &race.second}) {
      const auto at = std::ranges::lower_bound(kept, static_cast<std::size_t>(side->span));
      const bool there =
          side->span >= 0 && at != kept.end() && *at == static_cast<std::size_t>(side->span);
      side->span = there ? at - kept.begin() : -1;
    }
  }
  PageJson lanes = PageJson::array(), lane = PageJson::array(), name = PageJson::array(),
           begin = PageJson::array(), wait = PageJson::array(), length = PageJson::array();
  for (const std::string& stream : spans.streams) lanes.push_back(strings[stream]);
  std::string kinds;
  Ns before = 0;
  for (std::size_t i : kept) {
    const Span& s = spans.all[i];
    kinds += kSpanKinds[static_cast<std::size_t>(s.kind)];
    lane.push_back(s.stream);
    name.push_back(strings[spans.names[s.name]]);
    begin.push_back(s.begin - before);
    wait.push_back(s.begin - s.enqueued);
    length.push_back(s.end - s.begin);
    before = s.begin;
  }
  return {{"lanes", std::move(lanes)},
          {"in_all", static_cast<std::int64_t>(spans.all.size()) + spans.left_out},
          {"kinds", kinds},
          {"lane", std::move(lane)},
          {"name", std::move(name)},
          {"begin", std::move(begin)},
          {"wait", std::move(wait)},
          {"length", std::move(length)}};
}

PageJson page_gradient(const GradientError& g, Strings& strings) {
  return {strings[g.name], g.shape, g.first, distance_row(g.baseline), distance_row(g.reference)};
}

}  // namespace tidemark
