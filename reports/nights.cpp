#include "reports/nights.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/units.h"
#include "reports/markup.h"

namespace tidemark {

std::string nights_html(const Nights* nights, const TrialRecord& trial, const std::string& variant,
                        Statistic statistic) {
  if (nights == nullptr) return "";
  const auto series = nights->peaks.find({&trial, variant, statistic});
  if (series == nights->peaks.end() || series->second.size() < 2) return "";
  const std::vector<Bytes>& peaks = series->second;
  const auto [low, high] = std::ranges::minmax(peaks);
  std::string points, figures;
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    const double x = 100 * static_cast<double>(i) / static_cast<double>(peaks.size() - 1);
    const double y = low == high ? 8
                                 : 15 - 14 * static_cast<double>(peaks[i] - low) /
                                            static_cast<double>(high - low);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    figures += fmt::format("{}{}", i == 0 ? "" : ", ", bytes_text(peaks[i]));
  }
  points.pop_back();
  if (low == high) figures = bytes_text(low) + " in each";
  return fmt::format(
      "<svg class=\"nights\" role=\"img\" aria-label=\"{0}\" data-peaks=\"{1}\" "
      "viewBox=\"0 0 100 16\" preserveAspectRatio=\"none\"><title>{0}</title><polyline "
      "points=\"{2}\"/></svg>",
      markup_text(fmt::format("highest peak of any step, the last {}: {}",
                              plural(std::ssize(peaks), "night"), figures)),
      fmt::join(peaks, " "), points);
}

}  // namespace tidemark
