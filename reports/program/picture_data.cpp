#include "reports/program/picture_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/memory/places.h"
#include "harness/record/gzip.h"
#include "reports/picture_json.h"
#include "reports/program/rank_peaks.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// With so few moments that its compressed size is at most `most`.
Json fitted(const MemoryPicture& picture, const std::vector<std::int64_t>& calls,
            std::size_t moments, std::size_t most, std::size_t& size) {
  constexpr std::size_t kLowest = 64;
  for (;; moments /= 2) {
    Json json = picture.events.size() <= moments ? picture_json(picture, calls)  // without a copy
                                                 : picture_json(thinned(picture, moments), calls);
    size = gzip(text_of(json)).size();
    if (size <= most || moments <= kLowest) return json;
    moments = std::min(moments, picture.events.size());
  }
}

/// The picture of the run with room, where there is one: that of a device that ran out of memory.
const MemoryPicture& with_room(const MemoryPicture& picture, const HighestPeak& of) {
  for (const MemoryPicture& room : of.room)
    if (room.where == picture.where && room.device == picture.device) return room;
  return picture;
}

struct Shown {
  const MemoryPicture* picture;
  const HighestPeak* of;
  std::int64_t height;
};

/// The pictures of the page, the highest first.
std::vector<Shown> shown_of(const std::vector<HighestPeak>& peaks) {
  std::vector<Shown> out;
  const auto add = [&](const MemoryPicture& picture, const HighestPeak& of) {
    out.push_back({&picture, &of, std::ranges::max(active_of(picture))});
  };
  for (const HighestPeak& peak : peaks)
    for (const MemoryPicture& picture : peak.pictures) add(with_room(picture, peak), peak);
  for (const HighestPeak& peak : peaks)  // of a program whose first allocation failed
    for (const MemoryPicture& room : peak.room)
      if (std::ranges::find(out, &room, &Shown::picture) == out.end()) add(room, peak);
  std::ranges::stable_sort(out, std::greater(), &Shown::height);
  return out;
}

/// The phases of each schedule, and the peaks of each picture: over all, then in these phases.
struct PeaksByPhase {
  Json phases = Json::object();
  std::map<const MemoryPicture*, Json> of;
};

PeaksByPhase peaks_of(const std::vector<HighestPeak>& peaks, const std::vector<Shown>& all) {
  PeaksByPhase out;
  for (const HighestPeak& peak : peaks) {
    std::vector<const MemoryPicture*> pictures;
    std::vector<std::int64_t> heights;
    for (const Shown& one : all)
      if (one.of == &peak) pictures.push_back(one.picture), heights.push_back(one.height);
    const RankPeaks ranks = rank_peaks(pictures);
    out.phases[peak.schedule] = ranks.phases;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      Json& row = out.of[pictures[i]] = Json::array({heights[i]});
      for (const auto& level : ranks.peaks[i]) row.push_back(level ? Json(*level) : Json());
    }
  }
  return out;
}

}  // namespace

const MemoryPicture* first_picture(const std::vector<HighestPeak>& peaks) {
  const std::vector<Shown> all = shown_of(peaks);
  return all.empty() ? nullptr : all.front().picture;
}

Json picture_data(const std::vector<HighestPeak>& peaks, const PicturePlace& place,
                  const PictureBudget& budget) {
  const std::vector<Shown> all = shown_of(peaks);
  if (all.empty()) return {};
  const PeaksByPhase peaks_by_phase = peaks_of(peaks, all);
  Json pictures = Json::array();
  std::map<std::string, std::size_t> known;  // of equal content
  PageCalls stacks;
  std::vector<std::vector<std::int64_t>> calls;
  for (const Shown& one : all) calls.push_back(stacks.take(*one.picture));
  const Json shared = stacks.json();
  const std::size_t of_calls = gzip(text_of(shared)).size();
  std::size_t left = budget.packed - std::min(budget.packed / 4, of_calls), others = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Shown& one = all[i];
    std::size_t size = 0;
    // The first may have all that the others need not have.
    const std::size_t share = pictures.empty() ? left * 3 / 4 : left / others;
    Json json = fitted(*one.picture, calls[i], budget.moments, share, size);
    json["schedule"] = one.of->schedule;
    json["peaks"] = peaks_by_phase.of.at(one.picture);
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
  const std::string page = place.page.empty() ? "" : fs::absolute(place.page).string();
  return {{"page", page},
          {"gpu", place.gpu},
          {"capacity", place.capacity},
          {"calls", shared},
          {"phases", peaks_by_phase.phases},
          {"pictures", std::move(pictures)}};
}

}  // namespace tidemark
