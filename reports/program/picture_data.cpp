#include "reports/program/picture_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/record/string_table.h"
#include "reports/program/places.h"
#include "reports/trace.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
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

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// With so few moments that its compressed size is at most `most`.
Json fitted(const MemoryPicture& picture, std::size_t moments, std::size_t most,
            std::size_t& size) {
  constexpr std::size_t kLowest = 64;
  for (;; moments /= 2) {
    Json json = picture_json(thinned(picture, moments));
    size = gzip(text_of(json)).size();
    if (size <= most || moments <= kLowest) return json;
    moments = std::min(moments, picture.events.size());
  }
}

}  // namespace

Json picture_data(const Report& report, const std::vector<HighestPeak>& peaks, const fs::path& page,
                  const PictureBudget& budget) {
  struct One {
    const MemoryPicture* picture;
    const HighestPeak* of;
    std::int64_t height;
  };
  std::vector<One> all;
  for (const HighestPeak& peak : peaks)
    for (const MemoryPicture& picture : peak.pictures)
      all.push_back({&picture, &peak, std::ranges::max(active_of(picture))});
  if (all.empty()) return {};
  std::ranges::stable_sort(all, std::greater(), &One::height);
  Json pictures = Json::array();
  std::map<std::string, std::size_t> known;  // of equal content
  std::size_t left = budget.packed, others = all.size();
  for (const One& one : all) {
    std::size_t size = 0;
    // The first may have all that the others need not have.
    const std::size_t share = pictures.empty() ? left * 3 / 4 : left / others;
    Json json = fitted(*one.picture, budget.moments, share, size);
    json["schedule"] = one.of->schedule;
    const auto [at, fresh] = known.try_emplace(text_of(json), pictures.size());
    --others;
    const std::string name = place_name(one.picture->where, one.picture->device);
    if (!fresh) {
      pictures[at->second]["names"].push_back(name);
      continue;
    }
    left -= std::min(size, left);
    json["names"] = {name};
    pictures.push_back(std::move(json));
  }
  return {{"page", fs::absolute(page).string()},
          {"gpu", report.run.profile},
          {"capacity", report.run.capacity_bytes},
          {"pictures", std::move(pictures)}};
}

}  // namespace tidemark
