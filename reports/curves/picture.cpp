#include "reports/curves/picture.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/thin.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
Json drawn(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

}  // namespace

std::string curves_picture(const CurveParity& c) {
  const auto height = [](auto member) {
    return [member](const Divergence& d) { return std::isfinite(d.*member) ? d.*member : 0; };
  };
  const auto a = height(&Divergence::a), b = height(&Divergence::b);
  Json out{{"kind", "curves"},         {"title", parity_title(c)}, {"steps", Json::array()},
           {"a", Json::array()},       {"b", Json::array()},       {"band", Json::array()},
           {"windows", Json::array()}, {"first", nullptr}};
  if (const auto first = c.first_step()) out["first"] = *first;
  const auto thin = extremes(
      c.steps.size(), kLinePoints / 2,
      {[&](std::size_t i) { return a(c.steps[i]); }, [&](std::size_t i) { return b(c.steps[i]); }});
  std::size_t at = 0;
  for (const std::size_t i : thin) {
    out["steps"].push_back(c.steps[i].step);
    out["a"].push_back(drawn(c.steps[i].a));
    out["b"].push_back(drawn(c.steps[i].b));
    if (!c.noise) continue;
    const auto& band = c.noise->band;
    while (at < band.size() && band[at].step < c.steps[i].step) ++at;
    if (at < band.size() && band[at].step == c.steps[i].step)
      out["band"].push_back({band[at].step, band[at].low, band[at].high});
  }
  if (c.noise)
    for (const NoiseWindow& w : c.noise->windows)
      out["windows"].push_back({w.from, w.to, w.mean, w.error, w.bound});
  return out.dump();
}

}  // namespace tidemark
