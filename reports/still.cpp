#include "reports/still.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/html.h"
#include "reports/markup.h"
#include "reports/saving.h"
#include "reports/thin.h"

namespace tidemark {
namespace {

constexpr std::size_t kColumns = 160, kPoints = 400;
constexpr double kSpan = 1000;    // of both axes of a plot
constexpr double kNameRoom = 22;  // per cent of the width that the name of a step takes

/// A scale from 0 or from `low` to a round number above `high`, in a unit.
struct Scale {
  Scale(double low, double high, double unit) {
    const double rough = std::max(high - low, 1e-12 * std::max(1.0, std::abs(high))) / unit / 4;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double one : {1.0, 2.0, 2.5, 5.0, 10.0})
      if (step == 0 && one * power >= rough * 0.999999) step = one * power * unit;
    begin = std::floor(low / step) * step;
    end = std::max(begin + step, std::ceil(high / step) * step);
  }
  int at(double value) const {
    return static_cast<int>(std::lround(kSpan - kSpan * (value - begin) / (end - begin)));
  }
  double begin = 0, end = 1, step = 0;
};

int across(double value, double low, double high) {
  return static_cast<int>(std::lround(kSpan * (value - low) / std::max(high - low, 1e-12)));
}

std::string vertical_labels(const Scale& scale, double unit) {
  std::string out;
  for (int i = 0; scale.begin + i * scale.step <= scale.end * (1 + 1e-9) && i < 12; ++i) {
    const double value = scale.begin + i * scale.step;
    out += fmt::format("<span class=\"y\" style=\"top:{:.1f}%\">{:g}</span>",
                       scale.at(value) / 10.0, std::round(value / unit * 1e6) / 1e6);
  }
  return out;
}

/// A stretch of memory over its levels as a path of steps, down to the bottom where it is an area.
std::string stepped(const std::vector<int>& xs, const std::vector<int>& ys, bool area) {
  std::string out = fmt::format("M{} {}", xs[0], ys[0]);
  for (std::size_t i = 1; i < xs.size(); ++i) {
    if (ys[i] == ys[i - 1] && i + 1 < xs.size()) continue;
    out += fmt::format("H{}", xs[i]);
    if (ys[i] != ys[i - 1]) out += fmt::format("V{}", ys[i]);
  }
  return area ? out + fmt::format("V{0}H{1}Z", static_cast<int>(kSpan), xs[0]) : out;
}

std::string plot(const std::string& label, const std::string& shapes, const std::string& labels) {
  return fmt::format(
      "<div class=\"plot\"><svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" "
      "preserveAspectRatio=\"none\">{}</svg>{}</div>",
      markup_text(label), kSpan, kSpan, shapes, labels);
}

/// The bytes of each kind at each moment.
std::vector<std::vector<double>> levels_of(const MemoryPicture& picture) {
  const std::size_t moments = picture.events.size();
  std::vector<std::vector<double>> out(kMemoryKinds, std::vector<double>(moments + 1, 0));
  const auto add = [&](MemoryKind kind, std::size_t from, std::size_t until, Bytes bytes) {
    auto& levels = out[static_cast<std::size_t>(kind)];
    levels[std::min(from, moments)] += static_cast<double>(bytes);
    levels[std::min(until, moments)] -= static_cast<double>(bytes);
  };
  for (const MemoryPicture::Block& block : picture.blocks) {
    add(picture.places[block.place].kind, block.from, block.waits, block.bytes);
    add(MemoryKind::waiting, block.waits, block.until, block.bytes);
  }
  for (auto& levels : out)
    for (std::size_t i = 1; i < levels.size(); ++i) levels[i] += levels[i - 1];
  return out;
}

/// Names above a picture whose axis ends at `end`, where there is room for them.
std::string step_names(const std::vector<std::pair<std::string, double>>& steps, double end) {
  std::string out;
  double free = 0;
  for (const auto& [name, at] : steps) {
    const double left = 100 * at / std::max(1.0, end);
    if (left < free || left > 100 - kNameRoom) continue;
    free = left + kNameRoom;
    out += fmt::format("<span class=\"step\" style=\"left:{:.1f}%\">{}</span>", left,
                       markup_text(name));
  }
  return out;
}

std::vector<std::pair<std::string, double>> steps_of(const MemoryPicture& picture) {
  std::vector<std::pair<std::string, double>> out;
  std::int64_t last = 0;  // which is none
  for (const MemoryPicture::Phase& phase : picture.phases) {
    if (phase.step <= last) continue;
    last = phase.step;
    out.emplace_back(fmt::format("step {}", phase.step),
                     static_cast<double>(picture.events[phase.from]));
  }
  return out;
}

/// The first and the last place, below a picture.
std::string ends_html(const std::string& first, const std::string& last) {
  return fmt::format("<span class=\"x\">{}</span><span class=\"x last\">{}</span>", first, last);
}

/// The level at a place.
Bytes level_at(const std::vector<std::pair<double, Bytes>>& levels, double x) {
  const auto next = std::ranges::upper_bound(levels, x, {}, &std::pair<double, Bytes>::first);
  const bool over = next == levels.end() && x > levels.back().first;  // a run that has ended
  return next == levels.begin() || over ? 0 : std::prev(next)->second;
}

}  // namespace

std::string tone_of(MemoryKind kind) {
  std::string out = "kind-";
  for (const char c : std::string_view(name_of(kind))) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (letter)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (out.back() != '-')
      out += '-';
  }
  return out;
}

std::string legend_entry(const std::string& tone, const std::string& name, bool dashed) {
  return fmt::format("<li class=\"{}\"><i class=\"swatch{}\"></i> {}</li>", tone,
                     dashed ? " dashed" : "", markup_text(name));
}

std::string legend(const std::string& entries) {
  return "<ul class=\"legend\">" + entries + "</ul>";
}

std::string still_memory(const MemoryPicture& whole, Bytes capacity, Bytes least) {
  if (whole.events.size() < 2) return "";
  const MemoryPicture picture = thinned(whole, kColumns);
  const auto levels = levels_of(picture);
  const double events = static_cast<double>(picture.events.back());
  const std::size_t moments = picture.events.size();
  std::vector<int> xs;
  for (const std::int64_t taken : picture.events)
    xs.push_back(across(static_cast<double>(taken), 0, events));
  const Bytes active = std::ranges::max(active_of(picture));
  Bytes highest = std::max<Bytes>({active, std::ranges::max(picture.reserved), least, 1});
  const bool marked = capacity > 0 && capacity <= 2 * highest;
  if (marked) highest = std::max(highest, capacity);
  const ByteUnit unit = saving_unit(highest);
  const double size = unit.bytes;
  const Scale scale(0, static_cast<double>(highest), size);

  std::string areas, names;
  std::vector<double> sums(moments, 0);
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    bool any = false;
    for (std::size_t i = 0; i < moments; ++i) {
      sums[i] += levels[kind][i];
      any = any || levels[kind][i] > 0;
    }
    if (!any) continue;
    std::vector<int> ys;
    for (const double sum : sums) ys.push_back(scale.at(sum));
    const auto one = static_cast<MemoryKind>(kind);
    // A lower area is drawn later, over the higher ones.
    areas.insert(0,
                 fmt::format("<path class=\"{}\" d=\"{}\"/>", tone_of(one), stepped(xs, ys, true)));
    names += legend_entry(tone_of(one), name_of(one));
  }
  std::vector<int> reserved;
  for (const std::int64_t bytes : picture.reserved)
    reserved.push_back(scale.at(static_cast<double>(bytes)));
  areas += fmt::format("<path class=\"of-reserved line dashed\" d=\"{}\"/>",
                       stepped(xs, reserved, false));
  names += legend_entry("of-reserved", "reserved, with what the allocator caches", true);
  if (marked) {
    areas += fmt::format("<path class=\"capacity line dashed\" d=\"M0 {0}H{1}\"/>",
                         scale.at(static_cast<double>(capacity)), kSpan);
    names += legend_entry("capacity", "what PyTorch can have, " + bytes_text(capacity), true);
  }
  std::string refused;
  if (picture.refused > 0) {
    areas +=
        fmt::format("<path class=\"capacity line\" d=\"M{} 0V{}\"/>", xs[picture.refused], kSpan);
    names +=
        legend_entry("capacity", fmt::format("{} were refused", bytes_text(picture.refused_bytes)));
    refused =
        " It is of the second run, with room: up to the refusal it made the same allocations.";
  }
  return fmt::format(
      "<p class=\"quiet\">{}: {} of PyTorch's allocator, in {}.{}</p>{}{}",
      markup_text(place_name(picture.where, picture.device)), plural(picture.in_all, "event"),
      unit.name, refused, legend(names),
      plot(fmt::format("Memory over time by kind; the highest is {}", bytes_text(active)), areas,
           vertical_labels(scale, size) + step_names(steps_of(picture), events) +
               ends_html("0", exact(picture.events.back()))));
}

std::string still_page(const MemoryPicture& picture, Bytes capacity) {
  constexpr std::size_t kParts = 30;
  const std::size_t moment = picture.refused > 0 ? picture.refused : picture.peak;
  Bytes sum = 0;
  std::vector<std::pair<std::int64_t, Bytes>> at(picture.places.size());  // blocks and bytes
  for (const MemoryPicture::Block& block : picture.blocks)
    if (block.from <= moment && moment < block.until)
      ++at[block.place].first, at[block.place].second += block.bytes, sum += block.bytes;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const MemoryPicture::Place& place = picture.places[i];
    const auto [count, bytes] = at[i];
    if (count > 0)
      parts.push_back({place.kind, without_numbers(place.module), place.site, count, bytes});
  }
  parts = sum_up(parts);
  std::ranges::stable_sort(parts, std::greater(), &Part::bytes);
  std::vector<std::vector<std::string>> rows{{"line", "memory", "blocks", "kind", "module"}};
  for (std::size_t i = 0; i < std::min(parts.size(), kParts); ++i) {
    const Part& part = parts[i];
    rows.push_back({part.site, figure_cell(part.bytes), std::to_string(part.count),
                    name_of(part.kind), part.module});
    sum -= part.bytes;
  }
  if (parts.size() > kParts)
    rows.push_back(
        {fmt::format("{} more lines", parts.size() - kParts), figure_cell(sum), "", "", ""});
  return still_memory(picture, capacity) + "<h3>Alive " +
         (picture.refused > 0 ? "when memory was refused" : "at the peak") + "</h3>" +
         table_html(rows);
}

std::string still_overlay(const StillRun& before, const StillRun& after,
                          const std::vector<std::pair<std::string, double>>& steps,
                          const std::string& id) {
  std::set<double> places;
  Bytes highest = 1;
  for (const StillRun* run : {&before, &after})
    for (const auto& [x, level] : run->levels) places.insert(x), highest = std::max(highest, level);
  if (places.size() < 2) return "";
  const ByteUnit unit = saving_unit(highest);
  const double size = unit.bytes, end = *places.rbegin();
  const Scale scale(0, static_cast<double>(highest), size);
  std::vector<int> xs, old, fresh;
  for (const double x : places) {
    xs.push_back(across(x, 0, end));
    old.push_back(scale.at(static_cast<double>(level_at(before.levels, x))));
    fresh.push_back(scale.at(static_cast<double>(level_at(after.levels, x))));
  }
  // From the lower level to the higher one, where that is of the other run.
  const auto between = [&](const std::vector<int>& low, const std::vector<int>& high) {
    std::string out;
    for (std::size_t i = 0; i + 1 < xs.size(); ++i)
      if (high[i] < low[i] && xs[i] < xs[i + 1])
        out += fmt::format("M{} {}V{}H{}V{}Z", xs[i], low[i], high[i], xs[i + 1], low[i]);
    return out;
  };
  const auto hatch = [&](const char* kind, int angle) {
    return fmt::format(
        "<pattern id=\"{0}-{1}\" class=\"{1}\" width=\"8\" height=\"8\" "
        "patternUnits=\"userSpaceOnUse\" patternTransform=\"scale(1 4) rotate({2})\"><path "
        "d=\"M0 0V8\"/></pattern>",
        id, kind, angle);
  };
  const std::string shapes =
      "<defs>" + hatch("more", 45) + hatch("less", -45) + "</defs>" +
      fmt::format("<path class=\"old\" d=\"{}\"/>", stepped(xs, old, true)) +
      fmt::format("<path fill=\"url(#{}-more)\" d=\"{}\"/>", id, between(old, fresh)) +
      fmt::format("<path fill=\"url(#{}-less)\" d=\"{}\"/>", id, between(fresh, old)) +
      fmt::format("<path class=\"old-run line dashed\" d=\"{}\"/>", stepped(xs, old, false)) +
      fmt::format("<path class=\"new-run line\" d=\"{}\"/>", stepped(xs, fresh, false));
  return legend(legend_entry("old-run", before.name, true) + legend_entry("new-run", after.name) +
                legend_entry("more", "more than before") +
                legend_entry("less", "less than before")) +
         "<div class=\"overlaid\">" +
         plot("Memory over time of both runs", shapes,
              vertical_labels(scale, size) + step_names(steps, end)) +
         fmt::format("</div><p class=\"quiet\">Active memory, as requested, in {}.</p>", unit.name);
}

std::string still_chart(const Chart& chart) {
  double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
  for (const Line& line : chart.lines)
    for (const auto& [x, y] : line.points) {
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      left = std::min(left, x), right = std::max(right, x);
      low = std::min(low, y), high = std::max(high, y);
    }
  if (!(left < right)) return "";
  const ByteUnit unit = saving_unit(static_cast<Bytes>(std::clamp(high, 0.0, 9e18)));
  const double size = chart.bytes ? unit.bytes : 1;
  if (chart.bytes && low < high / 2) low = std::min(low, 0.0);
  if (!(low < high))
    low -= std::max(1.0, std::abs(low) / 50), high += std::max(1.0, std::abs(high) / 50);
  const Scale scale(low, high, size);
  std::string shapes, names;
  const bool bounds = std::ranges::any_of(chart.lines, &Line::bound);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const Line& line = chart.lines[i];
    const auto level = [&](std::size_t k) {
      return std::isfinite(line.points[k].second) ? line.points[k].second : 0;
    };
    std::string path;
    bool gap = true;
    for (const std::size_t k : extremes(line.points.size(), kPoints, {level})) {
      const auto& [x, y] = line.points[k];
      if (std::isfinite(x) && std::isfinite(y))
        path += fmt::format("{}{} {}", gap ? 'M' : 'L', across(x, left, right), scale.at(y));
      gap = !std::isfinite(x) || !std::isfinite(y);
    }
    if (path.empty()) continue;
    const std::string tone = fmt::format("tone-{}", i % 12);
    const bool dashed = bounds ? line.bound : i % 2 == 1;
    shapes +=
        fmt::format("<path class=\"{} line{}\" d=\"{}\"/>", tone, dashed ? " dashed" : "", path);
    names += legend_entry(tone, line.name, dashed);
  }
  const auto ends = [&](double value) {
    if (!chart.dates) return fmt::format("{:g}", value);
    const std::chrono::sys_seconds at{std::chrono::seconds(static_cast<std::int64_t>(value))};
    const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(at)};
    return fmt::format("{}-{:02}-{:02}", static_cast<int>(day.year()),
                       static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  };
  return (chart.lines.size() > 1 ? legend(names) : "") +
         plot(chart.title, shapes,
              vertical_labels(scale, size) + ends_html(ends(left), ends(right))) +
         fmt::format("<p class=\"quiet\">{}{}, over {}.</p>", markup_text(chart.y),
                     chart.bytes ? fmt::format(" in {}", unit.name) : "", markup_text(chart.x));
}

std::vector<std::vector<std::string>> alive_by_kind(const MemoryPicture& picture) {
  std::map<MemoryKind, std::pair<Bytes, std::int64_t>> sums;
  for (const MemoryPicture::Block& block : picture.blocks)
    if (block.from <= picture.peak && picture.peak < block.until) {
      auto& [bytes, count] = sums[picture.places[block.place].kind];
      bytes += block.bytes, ++count;
    }
  std::vector<std::pair<MemoryKind, std::pair<Bytes, std::int64_t>>> sorted(sums.begin(),
                                                                            sums.end());
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const auto& one) { return one.second.first; });
  std::vector<std::vector<std::string>> rows{{"memory", "blocks", "kind"}};
  for (const auto& [kind, sum] : sorted)
    rows.push_back({figure_cell(sum.first), exact(sum.second), name_of(kind)});
  return rows;
}

}  // namespace tidemark
