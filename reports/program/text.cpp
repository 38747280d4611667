#include "reports/program/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "harness/memory/places.h"
#include "harness/record/ranges_text.h"
#include "harness/record/units.h"
#include "reports/markup.h"
#include "reports/still.h"

namespace tidemark {
namespace {

// Events of all processes together: those that decided a branch first, then the most frequent.
std::vector<UnknownValue> events_of(const ProgramRecord& program) {
  std::map<std::tuple<bool, std::string, std::string, std::string>, UnknownValue> events;
  for (const ProcessRecord& process : program.processes)
    for (const UnknownValue& e : process.unknown) {
      UnknownValue& sum = events[{e.decides, e.line, e.operation, e.answer}];
      const std::int64_t count = sum.count + e.count;
      sum = e;
      sum.count = count;
      if (sum.line.empty()) sum.line = "backward";
    }
  std::vector<UnknownValue> out;
  for (auto& [key, event] : events) out.push_back(std::move(event));
  std::ranges::stable_sort(out, std::greater(),
                           [](const UnknownValue& e) { return std::pair(e.decides, e.count); });
  return out;
}

/// A part of a change.
struct Bar {
  MemoryKind kind;
  std::string name;
  Bytes bytes = 0;
};

/// A bar for the old peak, one for each part, which begins where the one before it ends, and one
/// for the new peak.
std::string bars_html(Bytes before, Bytes after, const std::vector<Bar>& bars) {
  std::vector<Bytes> levels{before};
  for (const Bar& bar : bars) levels.push_back(levels.back() + bar.bytes);
  const auto [low, high] = std::ranges::minmax(levels);
  // Small changes of a large peak are not seen on a scale from 0.
  const Bytes begin = low > high / 5 * 3 ? std::max<Bytes>(0, low - (high - low) / 4) : 0;
  const auto share = [&](Bytes level) {
    return 100 * static_cast<double>(level) / static_cast<double>(std::max<Bytes>(1, high - begin));
  };
  const auto row = [&](const std::string& name, Bytes from, Bytes to, MemoryKind kind, Bytes value,
                       const std::string& text) {
    return fmt::format(
        "<div class=\"stack-name\">{}</div><div class=\"stack\"><i "
        "style=\"background:none;width:{:.3f}%\"></i><i class=\"{}\" title=\"{} bytes\" "
        "style=\"width:{:.3f}%\"></i><data value=\"{}\" title=\"{} bytes\">{}</data></div>\n",
        markup_text(name), share(std::min(from, to) - begin), tone_of(kind), exact(value),
        share(std::abs(to - from)), value, exact(value), text);
  };
  std::string out = row("old peak", begin, before, MemoryKind::waiting, before, bytes_text(before));
  for (std::size_t i = 0; i < bars.size(); ++i)
    out += row(bars[i].name, levels[i], levels[i + 1], bars[i].kind, bars[i].bytes,
               (bars[i].bytes < 0 ? "\u2212" : "+") + bytes_text(std::abs(bars[i].bytes)));
  out += row("new peak", begin, after, MemoryKind::waiting, after, bytes_text(after));
  return "<div class=\"stacks waterfall\">" + out + "</div>" +
         (begin > 0 ? "<p class=\"quiet\">Bars begin at " + bytes_text(begin) + ".</p>" : "");
}

std::string part_line(const AlivePart& part) {
  return fmt::format("{:>20}  {}{}{}", (part.bytes > 0 ? "+" : "") + bytes_text(part.bytes),
                     name_of(part.kind), part.module.empty() ? "" : ", " + part.module,
                     part.site.empty() ? "" : ", " + part.site);
}

}  // namespace

bool has_outside(const ProgramRecord& program) {
  return std::ranges::any_of(program.processes, [](const ProcessRecord& process) {
    return std::ranges::any_of(process.devices,
                               [](const DeviceRecord& device) { return device.outside > 0; });
  });
}

std::vector<EqualPeaks> equal_peaks(const ProgramRecord& program) {
  constexpr std::size_t kEach = 8;    // devices, with a row each
  constexpr std::size_t kRanges = 4;  // of equal ranks
  std::size_t devices = 0;
  for (const ProcessRecord& process : program.processes) devices += process.devices.size();
  using Figures = std::tuple<Bytes, Bytes, Bytes, Bytes, std::int64_t, std::int64_t, std::size_t,
                             bool, std::string, int>;
  std::vector<EqualPeaks> out;
  std::map<Figures, std::size_t> known;
  std::vector<std::vector<int>> ranks;  // of each of `out`
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices) {
      const bool alone = devices <= kEach || !process.rank || process.devices.size() > 1;
      const Figures figures{device.allocated,       device.active,  device.reserved,
                            device.outside,         device.retries, device.ooms,
                            process.races.size(),   process.ended,  process.last,
                            alone ? process.pid : 0};
      const auto [at, fresh] = known.try_emplace(figures, out.size());
      if (alone || fresh) {
        at->second = out.size();
        out.push_back({place_of(process, device), 0, &process, &device});
        ranks.emplace_back();
      }
      ++out[at->second].count;
      if (process.rank) ranks[at->second].push_back(*process.rank);
    }
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].count > 1)
      out[i].who = fmt::format("ranks {} ({} ranks)", ranges_text(ranks[i], kRanges), out[i].count);
  return out;
}

std::vector<EqualPeaks> highest_of(std::vector<EqualPeaks> all) {
  if (all.size() <= kHighest) return all;
  std::ranges::stable_sort(all, std::greater(),
                           [](const EqualPeaks& one) { return one.device->active; });
  all.resize(kHighest);
  return all;
}

std::string table(const ProgramRecord& program) {
  Bytes largest = 0;
  const bool outside = has_outside(program);
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices) largest = std::max(largest, device.all());
  const ByteUnit unit = unit_for(largest);
  const std::vector<EqualPeaks> groups = equal_peaks(program);
  std::size_t wide = 18;
  for (const EqualPeaks& one : groups) wide = std::max(wide, one.who.size());
  std::string text =
      fmt::format("{:<{}} {:>12} {:>12} {:>12}{} {:>8} {:>6} {:>6}\n",
                  fmt::format("peaks, {}", unit.name), wide, "allocated", "active", "reserved",
                  outside ? fmt::format(" {:>12}", "outside") : "", "retries", "ooms", "races");
  for (const auto& [who, count, process, device] : groups)
    text += fmt::format("{:<{}} {:>12} {:>12} {:>12}{} {:>8} {:>6} {:>6}{}\n", who, wide,
                        unit(device->allocated), unit(device->active), unit(device->reserved),
                        outside ? fmt::format(" {:>12}", unit(device->outside)) : "",
                        device->retries, device->ooms, process->races.size(),
                        process->ended ? "" : "  (ended early " + process->last + ")");
  for (const ProcessRecord& process : program.processes)
    if (process.devices.empty()) text += unrecorded(process) + "\n";
  return text;
}

std::string decisions(const ProgramRecord& program) {
  std::vector<std::string> places;
  for (const UnknownValue& event : events_of(program))
    if (event.decides && std::ranges::find(places, event.line) == places.end())
      places.push_back(event.line);
  if (places.empty()) return "";
  const std::size_t shown = std::min<std::size_t>(places.size(), 3);
  return fmt::format(
      "control flow depended on values that are not known: {}{}\n",
      fmt::join(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < places.size() ? fmt::format(" and {} more", places.size() - shown) : "");
}

std::string unknowns(const ProgramRecord& program) {
  constexpr std::size_t kMost = 10;
  const std::vector<UnknownValue> events = events_of(program);
  std::int64_t stood_in = 0;
  for (const ProcessRecord& process : program.processes) stood_in += process.stood_in;
  std::string text;
  if (stood_in > 0)
    text = fmt::format("{} used the rank's own values for those of absent partners\n",
                       plural(stood_in, "collective"));
  if (events.empty()) return text;
  text += "values that were not known, and what the program was told:\n";
  for (std::size_t i = 0; i < std::min(events.size(), kMost); ++i) {
    const UnknownValue& e = events[i];
    text +=
        fmt::format("  {}  {}  {}, {}\n", e.line, e.operation, e.answer, plural(e.count, "time"));
  }
  if (events.size() > kMost)
    text += fmt::format("  and {} more (--out has all)\n", events.size() - kMost);
  return text;
}

std::vector<std::vector<std::string>> bracket(const std::vector<TrialRecord>& trials,
                                              std::string (*figure)(Bytes)) {
  const auto written = [&](Bytes bytes) {
    return figure == nullptr ? exact(bytes) : figure(bytes);
  };
  if (trials.size() < 2) return {};
  std::vector<std::vector<std::string>> rows{{"peak of active"}};
  for (const TrialRecord& trial : trials) rows[0].push_back(trial.schedule);
  rows[0].insert(rows[0].end(), {"highest - lowest", ""});
  std::vector<std::map<std::string, DeviceAt>> all;
  std::vector<std::string> names;  // in order
  for (const TrialRecord& trial : trials) {
    auto& devices = all.emplace_back();
    for (DeviceAt& at : devices_of(*trial.program)) {
      if (std::ranges::find(names, at.name()) == names.end()) names.push_back(at.name());
      devices.emplace(at.name(), std::move(at));
    }
  }
  for (const std::string& name : names) {
    std::vector<std::string>& row = rows.emplace_back(std::vector{name});
    std::vector<Bytes> peaks;
    for (const auto& devices : all) {
      const auto entry = devices.find(name);
      const bool known = entry != devices.end() && entry->second.process->ended;
      row.push_back(known ? written(entry->second.device->active) : "unknown");
      if (known) peaks.push_back(entry->second.device->active);
    }
    const bool whole = peaks.size() == trials.size();
    const Bytes difference =
        whole ? *std::ranges::max_element(peaks) - *std::ranges::min_element(peaks) : 0;
    row.push_back(whole ? written(difference) : "unknown");
    row.push_back(whole && difference > 0 && figure == nullptr ? bytes_text(difference) : "");
  }
  return rows;
}

LargestParts largest_parts(const AliveAtPeak& alive, std::size_t most) {
  LargestParts out{alive.parts};
  std::ranges::stable_sort(out.parts, std::greater(), &AlivePart::bytes);
  if (out.parts.size() <= most) return out;
  out.others = out.parts.size() - most;
  for (std::size_t i = most; i < out.parts.size(); ++i) out.rest += out.parts[i].bytes;
  out.parts.resize(most);
  return out;
}

RunAhead run_ahead(const std::vector<TrialRecord>& trials) {
  RunAhead out;
  for (const TrialRecord& trial : trials) {
    const auto& alive = trial.alive;
    if (!alive) return {};
    if (!out.low || alive->active < out.low->alive->active) out.low = &trial;
    if (!out.high || alive->active > out.high->alive->active) out.high = &trial;
  }
  if (out.low == out.high) return {};
  out.parts = beyond(*out.low->alive, *out.high->alive);
  return out;
}

std::vector<AlivePart> beyond(const AliveAtPeak& before, const AliveAtPeak& after) {
  using Key = std::tuple<MemoryKind, std::string, std::string>;
  std::map<Key, AlivePart> sums;
  const auto add = [&](const AlivePart& part, int sign) {
    AlivePart& sum = sums[{part.kind, part.module, part.site}];
    sum.kind = part.kind, sum.module = part.module, sum.site = part.site;
    sum.count += sign * part.count, sum.bytes += sign * part.bytes;
  };
  for (const AlivePart& part : after.parts) add(part, 1);
  for (const AlivePart& part : before.parts) add(part, -1);
  std::vector<AlivePart> out;
  for (auto& [key, part] : sums)
    if (part.bytes != 0) out.push_back(std::move(part));
  std::ranges::stable_sort(out, std::greater(),
                           [](const AlivePart& part) { return std::abs(part.bytes); });
  return out;
}

Section difference(const TrialRecord& before, const TrialRecord& after, std::size_t most) {
  const auto &was = before.alive, &is = after.alive;
  if (!was || !is) return {};
  return waterfall("peak of active under " + after.schedule, was->active, is->active,
                   beyond(*was, *is), most);
}

Section waterfall(const std::string& peak, Bytes before, Bytes after,
                  const std::vector<AlivePart>& parts, std::size_t most) {
  if (parts.empty()) return {};
  Bytes rest = after - before;
  Section out{fmt::format("{}: {} -> {}, {} bytes", peak, bytes_text(before), bytes_text(after),
                          signed_bytes(rest)),
              {},
              {},
              {{"bytes", "kind", "module", "line"}}};
  std::vector<Bar> bars;
  const auto add = [&](Bytes bytes, const std::string& kind, const std::string& module,
                       const std::string& site) {
    out.rows.push_back({signed_bytes(bytes), kind, module, site});
    bars.push_back({memory_kind(kind).value_or(MemoryKind::other),
                    fmt::format("{}{}{}", kind, module.empty() ? "" : ", " + module,
                                site.empty() ? "" : ", " + site),
                    bytes});
    rest -= bytes;
  };
  for (std::size_t i = 0; i < std::min(parts.size(), most); ++i)
    add(parts[i].bytes, name_of(parts[i].kind), parts[i].module, parts[i].site);
  if (parts.size() > most)
    add(rest, "in " + plural(std::ssize(parts) - static_cast<std::ptrdiff_t>(most), "more line"),
        "", "");
  const auto bare = [](const auto& row) { return row[2].empty() && row[3].empty(); };
  if (std::all_of(out.rows.begin() + 1, out.rows.end(), bare))  // a scenario's categories
    for (std::vector<std::string>& row : out.rows) row.resize(2);
  out.pictures.push_back({"From the old peak to the new one", "", bars_html(before, after, bars)});
  out.rows_fold = "The same in bytes";
  return out;
}

std::string bracket_text(const std::vector<TrialRecord>& trials) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (const std::vector<std::string>& row : bracket(trials, bytes_text)) {
    text += fmt::format("{:<18}", row[0]);
    for (std::size_t i = 1; i + 1 < row.size(); ++i) text += fmt::format(" {:>18}", row[i]);
    text += "\n";
  }
  const RunAhead ahead = run_ahead(trials);
  if (ahead.parts.empty()) return text;
  const auto peak = [](const TrialRecord& trial) {
    return fmt::format("{} of {} under {}", bytes_text(trial.alive->active),
                       place_name(trial.alive->where, 0), trial.schedule);
  };
  text += fmt::format("the difference between the highest peaks, {} and {}, as requested:\n",
                      peak(*ahead.high), peak(*ahead.low));
  for (std::size_t i = 0; i < std::min(ahead.parts.size(), kMost); ++i) {
    text += part_line(ahead.parts[i]) + "\n";
  }
  if (ahead.parts.size() > kMost)
    text += fmt::format("{:>20}  more parts\n", ahead.parts.size() - kMost);
  return text;
}

}  // namespace tidemark
