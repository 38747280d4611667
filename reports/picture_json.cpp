#include "reports/picture_json.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "harness/record/string_table.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

/// A number of each row.
template <class Rows, class Number>
Json column(const Rows& rows, Number number) {
  Json::array_t out;
  out.reserve(std::size(rows));
  for (const auto& row : rows) out.emplace_back(std::invoke(number, row));
  return out;
}

/// Of each row its number less that of the row before.
template <class Rows, class Number>
Json differences(const Rows& rows, Number number) {
  return column(rows, [number, last = std::int64_t{0}](const auto& row) mutable {
    const auto value = static_cast<std::int64_t>(std::invoke(number, row));
    return value - std::exchange(last, value);
  });
}

Json places_json(const MemoryPicture& picture, const std::vector<std::int64_t>& calls,
                 Json& of_blocks) {
  StringTable kinds, modules, files;
  Json of_kind = Json::array(), of_module = Json::array(), of_site = Json::array(),
       of_call = Json::array(), sites = Json::array();
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> known;
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> places;
  for (const MemoryPicture::Block& block : picture.blocks) {
    const std::int64_t call = block.call < calls.size() ? calls[block.call] : 0;
    const auto [number, unseen] = places.try_emplace({block.place, call}, places.size());
    of_blocks.push_back(number->second);
    if (!unseen) continue;
    const MemoryPicture::Place& place = picture.places[block.place];
    of_kind.push_back(kinds[name_of(place.kind)]);
    of_module.push_back(modules[place.module]);
    of_call.push_back(call);
    const auto [at, fresh] = known.try_emplace({place.site, place.file, place.line}, known.size());
    if (fresh)
      sites.push_back({place.site, files[place.file], place.line,
                       place.source ? Json(*place.source) : Json(nullptr)});
    of_site.push_back(at->second);
  }
  return {{"kinds", kinds.all()},      {"modules", modules.all()}, {"files", files.all()},
          {"sites", std::move(sites)}, {"kind", of_kind},          {"module", of_module},
          {"site", of_site},           {"call", of_call}};
}

// An object of JSON copies what it holds when it gets a key more: the columns come last.
Json blocks_json(const std::vector<MemoryPicture::Block>& blocks, Json place) {
  using Block = MemoryPicture::Block;
  Json out{{"place", nullptr}, {"bytes", nullptr},   {"from", nullptr}, {"lives", nullptr},
           {"waits", nullptr}, {"address", nullptr}, {"rest", nullptr}};
  out["place"] = std::move(place);
  out["bytes"] = column(blocks, &Block::bytes);
  out["from"] = differences(blocks, &Block::from);
  out["lives"] = column(blocks, [](const Block& one) { return one.until - one.from; });
  out["waits"] = column(blocks, [](const Block& one) { return one.until - one.waits; });
  out["address"] = differences(blocks, &Block::address);
  out["rest"] = column(blocks, &Block::rest);
  return out;
}

Json segments_json(const std::vector<SegmentLife>& segments) {
  Json out{{"address", nullptr}, {"bytes", nullptr}, {"stream", nullptr}, {"pool", nullptr},
           {"mapped", nullptr},  {"from", nullptr},  {"lives", nullptr}};
  out["address"] = differences(segments, &SegmentLife::address);
  out["bytes"] = column(segments, &SegmentLife::bytes);
  out["stream"] = column(segments, &SegmentLife::stream);
  out["pool"] = column(segments, &SegmentLife::pool);
  out["mapped"] = column(segments, [](const SegmentLife& one) { return one.mapped ? 1 : 0; });
  out["from"] = differences(segments, &SegmentLife::from);
  out["lives"] = column(segments, [](const SegmentLife& one) { return one.until - one.from; });
  return out;
}

constexpr std::size_t kLongest = 300;  // letters of a function and of a file

}  // namespace

std::vector<std::int64_t> PageCalls::take(const MemoryPicture& picture) {
  std::vector<const MemoryPicture::Block*> blocks;
  for (const MemoryPicture::Block& block : picture.blocks) blocks.push_back(&block);
  std::ranges::stable_sort(blocks, std::greater(), &MemoryPicture::Block::bytes);
  constexpr std::int64_t kUnseen = -2;
  std::vector<std::int64_t> out(picture.calls.calls().size(), kUnseen);
  out[0] = 0;
  for (const MemoryPicture::Block* block : blocks) {
    if (out[block->call] != kUnseen) continue;
    std::vector<std::uint32_t> frames = picture.calls.stack(block->call);
    for (std::uint32_t& frame : frames) {
      StackFrame one = picture.calls.frames()[frame];
      one.function.resize(std::min(one.function.size(), kLongest));
      one.file.resize(std::min(one.file.size(), kLongest));
      const auto source = picture.sources.find(frame);
      frame = calls_.frame(one);
      if (source != picture.sources.end()) sources_[frame] = source->second;
    }
    out[block->call] = -1;
    if (calls_.calls().size() + calls_.missing(frames) > most_) continue;
    std::uint32_t call = 0;
    for (const std::uint32_t frame : frames) call = calls_.call(call, frame);
    out[block->call] = call;
  }
  return out;
}

Json PageCalls::json() const {
  StringTable functions, files;
  Json function = Json::array(), file = Json::array(), line = Json::array();
  Json sources = Json::object(), caller = Json::array(), frame = Json::array();
  for (const StackFrame& one : calls_.frames()) {
    function.push_back(functions[one.function]);
    file.push_back(files[one.file]);
    line.push_back(one.line);
  }
  for (const auto& [number, source] : sources_) sources[std::to_string(number)] = source;
  // Most calls come right behind their callers.
  for (std::size_t i = 1; i < calls_.calls().size(); ++i) {
    caller.push_back(i - calls_.calls()[i].caller);
    frame.push_back(calls_.calls()[i].frame);
  }
  return {{"functions", functions.all()},
          {"files", files.all()},
          {"function", function},
          {"file", file},
          {"line", line},
          {"sources", sources},
          {"caller", caller},
          {"frame", frame}};
}

Json picture_json(const MemoryPicture& picture, const std::vector<std::int64_t>& calls) {
  std::vector<std::size_t> changes;  // of `reserved`
  for (std::size_t i = 0; i < picture.reserved.size(); ++i)
    if (i == 0 || picture.reserved[i] != picture.reserved[i - 1]) changes.push_back(i);
  Json phases = Json::array(), of_blocks = Json::array();
  for (const MemoryPicture::Phase& phase : picture.phases)
    phases.push_back({phase.name, phase.step, phase.from, phase.to});
  of_blocks.get_ref<Json::array_t&>().reserve(picture.blocks.size());
  Json out{{"in_all", picture.in_all},   {"moments", picture.events.size()},
           {"events", nullptr},          {"peak", picture.peak},
           {"reserved", Json::array()},  {"places", places_json(picture, calls, of_blocks)},
           {"blocks", nullptr},          {"segments", nullptr},
           {"phases", std::move(phases)}};
  if (std::ssize(picture.events) != picture.in_all + 1)
    out["events"] = differences(picture.events, std::identity());
  out["reserved"].push_back(differences(changes, std::identity()));
  out["reserved"].push_back(
      differences(changes, [&](std::size_t at) { return picture.reserved[at]; }));
  out["blocks"] = blocks_json(picture.blocks, std::move(of_blocks));
  out["segments"] = segments_json(picture.segments);
  if (picture.refused > 0) out["refused"] = {picture.refused, picture.refused_bytes};
  return out;
}

}  // namespace tidemark
