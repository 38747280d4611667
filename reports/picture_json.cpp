#include "reports/picture_json.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "harness/record/string_table.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

/// Each number less the one before.
class Differences {
 public:
  void add(std::int64_t value) { out_.push_back(value - last_), last_ = value; }
  Json take() { return std::move(out_); }

 private:
  Json out_ = Json::array();
  std::int64_t last_ = 0;
};

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

Json blocks_json(const MemoryPicture& picture, Json place) {
  Json bytes = Json::array(), lives = Json::array(), waits = Json::array(), rest = Json::array();
  Differences from, address;
  for (const MemoryPicture::Block& block : picture.blocks) {
    bytes.push_back(block.bytes);
    from.add(static_cast<std::int64_t>(block.from));
    address.add(block.address);
    lives.push_back(block.until - block.from);
    waits.push_back(block.until - block.waits);
    rest.push_back(block.rest);
  }
  return {{"place", std::move(place)}, {"bytes", std::move(bytes)}, {"from", from.take()},
          {"lives", std::move(lives)}, {"waits", std::move(waits)}, {"address", address.take()},
          {"rest", std::move(rest)}};
}

Json segments_json(const std::vector<SegmentLife>& segments) {
  Json bytes = Json::array(), stream = Json::array(), pool = Json::array(), mapped = Json::array(),
       lives = Json::array();
  Differences from, address;
  for (const SegmentLife& one : segments) {
    address.add(one.address);
    bytes.push_back(one.bytes);
    stream.push_back(one.stream);
    pool.push_back(one.pool);
    mapped.push_back(one.mapped ? 1 : 0);
    from.add(static_cast<std::int64_t>(one.from));
    lives.push_back(one.until - one.from);
  }
  return {{"address", address.take()}, {"bytes", std::move(bytes)},   {"stream", std::move(stream)},
          {"pool", std::move(pool)},   {"mapped", std::move(mapped)}, {"from", from.take()},
          {"lives", std::move(lives)}};
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
  Differences events, moments, reserved;
  for (const std::int64_t taken : picture.events) events.add(taken);
  for (std::size_t i = 0; i < picture.reserved.size(); ++i)
    if (i == 0 || picture.reserved[i] != picture.reserved[i - 1])
      moments.add(static_cast<std::int64_t>(i)), reserved.add(picture.reserved[i]);
  Json phases = Json::array(), of_blocks = Json::array();
  for (const MemoryPicture::Phase& phase : picture.phases)
    phases.push_back({phase.name, phase.step, phase.from, phase.to});
  Json places = places_json(picture, calls, of_blocks);
  const bool all = std::ssize(picture.events) == picture.in_all + 1;
  Json out{{"in_all", picture.in_all},
           {"moments", picture.events.size()},
           {"events", all ? Json(nullptr) : events.take()},
           {"peak", picture.peak},
           {"reserved", {moments.take(), reserved.take()}},
           {"places", std::move(places)},
           {"blocks", blocks_json(picture, std::move(of_blocks))},
           {"segments", segments_json(picture.segments)},
           {"phases", std::move(phases)}};
  if (picture.refused > 0) out["refused"] = {picture.refused, picture.refused_bytes};
  return out;
}

}  // namespace tidemark
