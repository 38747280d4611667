#include "harness/record/shared.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

namespace tidemark {
namespace {

constexpr std::size_t kShortest = 24;  // characters; what is shorter stays where it is

class Sharing {
 public:
  using Json = nlohmann::ordered_json;

  Json share(Json& value) {
    number(value);
    times_.resize(kinds_.size());
    places_.assign(kinds_.size(), kNowhere);
    std::size_t at = 0;
    count(value, at);
    at = 0;
    value = inside(value, at);
    return std::move(shared_);
  }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  struct Place {  // of a value, in the order in which they are written
    std::size_t kind, values, length;
  };

  /// Gives equal values the same number.
  Place number(const Json& value) {
    const std::size_t mine = all_.size();
    all_.push_back({});
    std::string key;
    std::size_t length = 0;
    if (value.is_structured()) {
      key = value.is_array() ? "[" : "{";
      for (const auto& [name, item] : value.items()) {
        const Place inner = number(item);
        if (value.is_object()) key += fmt::format("{}\n", name), length += name.size() + 3;
        key += fmt::format("{},", inner.kind);
        length += inner.length + 1;
      }
    } else {
      key = value.dump(-1, ' ', false, Json::error_handler_t::replace);
      length = key.size();
    }
    const std::size_t kind = kinds_.try_emplace(std::move(key), kinds_.size()).first->second;
    return all_[mine] = {kind, all_.size() - mine, length};
  }

  bool shareable(const Json& value, const Place& place) const {
    return (value.is_structured() || value.is_string()) && place.length >= kShortest;
  }

  /// Inside of what has come up before nothing counts again.
  void count(const Json& value, std::size_t& at) {
    const Place place = all_[at];
    if (shareable(value, place) && ++times_[place.kind] > 1) {
      at += place.values;
      return;
    }
    ++at;
    if (value.is_structured())
      for (const auto& item : value) count(item, at);
  }

  Json reference(const Json& value, std::size_t& at) {
    const Place place = all_[at];
    if (!shareable(value, place) || times_[place.kind] < 2) return inside(value, at);
    if (places_[place.kind] == kNowhere) {
      Json made = inside(value, at);
      places_[place.kind] = shared_.size();
      shared_.push_back(std::move(made));
    } else {
      at += place.values;
    }
    return fmt::format("${}", places_[place.kind]);
  }

  Json inside(const Json& value, std::size_t& at) {
    ++at;
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      return text.starts_with('$') ? Json("$" + text) : value;
    }
    if (!value.is_structured()) return value;
    Json out = value.is_array() ? Json::array() : Json::object();
    for (const auto& [name, item] : value.items()) {
      if (value.is_array())
        out.push_back(reference(item, at));
      else
        out.push_back({name, reference(item, at)});
    }
    return out;
  }

  std::unordered_map<std::string, std::size_t> kinds_;
  std::vector<Place> all_;
  std::vector<std::size_t> times_, places_;
  Json shared_ = Json::array();
};

}  // namespace

nlohmann::ordered_json share(nlohmann::ordered_json& value) { return Sharing().share(value); }

}  // namespace tidemark
