#include "reports/program/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/renderings.h"

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

std::string part_line(const AlivePart& part) {
  return fmt::format("{:>20}  {}{}{}", signed_bytes(part.bytes), name_of(part.kind),
                     part.module.empty() ? "" : ", " + part.module,
                     part.site.empty() ? "" : ", " + part.site);
}

}  // namespace

std::string table(const ProgramRecord& program) {
  Bytes largest = 0;
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices) largest = std::max(largest, device.reserved);
  const ByteUnit unit = unit_for(largest);
  std::string text = fmt::format("{:<18} {:>12} {:>12} {:>12} {:>8} {:>6} {:>6}\n",
                                 fmt::format("peaks, {}", unit.name), "allocated", "active",
                                 "reserved", "retries", "ooms", "races");
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices)
      text += fmt::format("{:<18} {:>12} {:>12} {:>12} {:>8} {:>6} {:>6}{}\n",
                          place_of(process, device), unit(device.allocated), unit(device.active),
                          unit(device.reserved), device.retries, device.ooms, process.races.size(),
                          process.ended ? "" : "  (ended early " + process.last + ")");
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

std::vector<std::vector<std::string>> bracket(const std::vector<TrialRecord>& trials) {
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
      row.push_back(known ? exact(entry->second.device->active) : "unknown");
      if (known) peaks.push_back(entry->second.device->active);
    }
    const bool whole = peaks.size() == trials.size();
    const Bytes difference =
        whole ? *std::ranges::max_element(peaks) - *std::ranges::min_element(peaks) : 0;
    row.push_back(whole ? exact(difference) : "unknown");
    row.push_back(whole && difference > 0 ? bytes_text(difference) : "");
  }
  return rows;
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
  nlohmann::ordered_json drawn = nlohmann::ordered_json::array();
  const auto add = [&](Bytes bytes, const std::string& kind, const std::string& module,
                       const std::string& site) {
    out.rows.push_back({signed_bytes(bytes), kind, module, site});
    drawn.push_back({{"kind", kind},
                     {"name", fmt::format("{}{}{}", kind, module.empty() ? "" : ", " + module,
                                          site.empty() ? "" : ", " + site)},
                     {"bytes", bytes}});
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
  const nlohmann::ordered_json picture{
      {"kind", "waterfall"}, {"before", before}, {"after", after}, {"parts", std::move(drawn)}};
  out.pictures.push_back({"From the old peak to the new one",
                          picture.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
  return out;
}

std::string bracket_text(const std::vector<TrialRecord>& trials) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (const std::vector<std::string>& row : bracket(trials)) {
    text += fmt::format("{:<18}", row[0]);
    for (std::size_t i = 1; i + 1 < row.size(); ++i) text += fmt::format(" {:>18}", row[i]);
    text += row.back().empty() ? "\n" : "  " + row.back() + "\n";
  }
  const RunAhead ahead = run_ahead(trials);
  if (ahead.parts.empty()) return text;
  const auto peak = [](const TrialRecord& trial) {
    return fmt::format("{} bytes of {} under {}", exact(trial.alive->active), trial.alive->where,
                       trial.schedule);
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

std::string programs_markdown(const std::vector<TrialRecord>& trials) {
  std::string out;
  for (const TrialRecord& trial : trials) {
    if (!trial.program) continue;
    const ProgramRecord& program = *trial.program;
    out += fmt::format("\n{}, {}, exit code {}\n\n",
                       markdown_code(fmt::format("{}", fmt::join(program.words, " "))),
                       markdown_text(trial.name()), program.exit_code);
    for (const std::string& line : program.findings) out += "- " + markdown_text(line) + "\n";
    if (!program.findings.empty()) out += "\n";
    out +=
        "| process | allocated | active | reserved | retries | ooms | races |\n"
        "|---|---:|---:|---:|---:|---:|---:|\n";
    for (const ProcessRecord& process : program.processes)
      for (const DeviceRecord& device : process.devices)
        out += fmt::format(
            "| {}{} | {} | {} | {} | {} | {} | {} |\n", markdown_text(place_of(process, device)),
            process.ended ? "" : " (ended early)", exact(device.allocated), exact(device.active),
            exact(device.reserved), device.retries, device.ooms, process.races.size());
  }
  return out;
}

}  // namespace tidemark
