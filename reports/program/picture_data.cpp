#include "reports/program/picture_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/memory/places.h"
#include "harness/record/gzip.h"
#include "reports/picture_json.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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
