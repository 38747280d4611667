#include "reports/picture_json.h"

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

Json places_json(const MemoryPicture& picture) {
  StringTable kinds, modules, files;
  Json of_kind = Json::array(), of_module = Json::array(), of_site = Json::array();
  Json sites = Json::array();
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> known;
  for (const MemoryPicture::Place& place : picture.places) {
    of_kind.push_back(kinds[name_of(place.kind)]);
    of_module.push_back(modules[place.module]);
    const auto [at, fresh] = known.try_emplace({place.site, place.file, place.line}, known.size());
    if (fresh)
      sites.push_back({place.site, files[place.file], place.line,
                       place.source ? Json(*place.source) : Json(nullptr)});
    of_site.push_back(at->second);
  }
  return {{"kinds", kinds.all()}, {"modules", modules.all()},
          {"files", files.all()}, {"sites", std::move(sites)},
          {"kind", of_kind},      {"module", of_module},
          {"site", of_site}};
}

Json blocks_json(const MemoryPicture& picture) {
  Json place = Json::array(), bytes = Json::array(), lives = Json::array(), waits = Json::array();
  Differences from;
  for (const MemoryPicture::Block& block : picture.blocks) {
    place.push_back(block.place);
    bytes.push_back(block.bytes);
    from.add(static_cast<std::int64_t>(block.from));
    lives.push_back(block.until - block.from);
    waits.push_back(block.until - block.waits);
  }
  return {{"place", std::move(place)},
          {"bytes", std::move(bytes)},
          {"from", from.take()},
          {"lives", std::move(lives)},
          {"waits", std::move(waits)}};
}

}  // namespace

Json picture_json(const MemoryPicture& picture) {
  Differences events, moments, reserved;
  for (const std::int64_t taken : picture.events) events.add(taken);
  for (std::size_t i = 0; i < picture.reserved.size(); ++i)
    if (i == 0 || picture.reserved[i] != picture.reserved[i - 1])
      moments.add(static_cast<std::int64_t>(i)), reserved.add(picture.reserved[i]);
  Json phases = Json::array();
  for (const MemoryPicture::Phase& phase : picture.phases)
    phases.push_back({phase.name, phase.step, phase.from, phase.to});
  const bool all = std::ssize(picture.events) == picture.in_all + 1;
  return {{"in_all", picture.in_all},
          {"moments", picture.events.size()},
          {"events", all ? Json(nullptr) : events.take()},
          {"peak", picture.peak},
          {"reserved", {moments.take(), reserved.take()}},
          {"places", places_json(picture)},
          {"blocks", blocks_json(picture)},
          {"phases", std::move(phases)}};
}

}  // namespace tidemark
