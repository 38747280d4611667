#include "reports/curves/progress_bars.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "reports/curves/formats.h"
#include "reports/curves/log_line.h"

namespace tidemark {
namespace {

/// What the first bar of `text` has counted: "8" of "  7%|6   | 8/120 [00:00<00:10, 11.04it/s]".
std::optional<std::int64_t> first_bar(std::string_view text) {
  for (std::size_t at = 0; (at = text.find(" [", at)) != std::string_view::npos; ++at) {
    const std::string_view before = text.substr(0, at);
    const auto part = part_of_whole(before.substr(before.find_last_not_of("0123456789/") + 1));
    if (!part || part->second.empty() || part->second.find('/') != part->second.npos) continue;
    std::int64_t step = 0;
    const char* const last = part->first.data() + part->first.size();
    const auto [end, error] = std::from_chars(part->first.data(), last, step);
    if (error == std::errc() && end == last) return step;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::int64_t> steps_of_bars(
    std::string_view text, std::string_view mark,
    const std::function<bool(std::string_view line)>& has_loss) {
  std::vector<std::int64_t> steps;
  bool waits = false, known = true;
  const auto look = [&](std::string_view part) {
    const auto step = waits ? first_bar(part) : std::nullopt;
    if (!step) return;
    known = known && (steps.empty() || steps.back() != *step);
    steps.push_back(*step);
    waits = false;
  };
  each_line(text, [&](std::string_view line, const std::string&) {
    if (!known) return;
    const auto at = std::min(line.find(mark), line.size());
    look(line.substr(0, at));
    if (at == line.size() || !has_loss(line)) return;
    known = !waits;
    waits = true;
    look(line.substr(at));
  });
  return known ? steps : std::vector<std::int64_t>{};
}

}  // namespace tidemark
