#include "reports/snapshot/render.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ranges>

#include "harness/memory/analysis.h"
#include "harness/memory/parts.h"
#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/snapshot/lines.h"
#include "reports/snapshot/sites.h"

namespace tidemark {

std::string lifetime(const Site& s) {
  if (s.ended == 0) return s.allocations > 0 ? "never freed" : "";
  return "lives " + duration(static_cast<Ns>(s.mean_us() * 1000));
}

std::string pending_line(const PendingFree& p) {
  std::string out = fmt::format("{} bytes at {:#x}, stream {:#x}: {}", exact(p.size), p.address,
                                p.stream, p.site);
  if (p.waiting_us >= 0) out += ", waiting for " + duration(p.waiting_us * 1000);
  return out;
}

namespace {

using Json = nlohmann::ordered_json;

std::string holdings(const Holdings& h) {
  return fmt::format("allocated {}, active {}, reserved {} bytes", exact(h.allocated),
                     exact(h.active), exact(h.reserved));
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "0%"
                    : fmt::format("{:.3g}%",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string fragmentation(const Fragmentation& f) {
  return fmt::format(
      "{} segments of {} bytes: {} allocated ({} requested), {} pending, {} free in {} fragments "
      "of segments in use ({} of reserved), {} in free segments; largest free block {}",
      f.segments, exact(f.reserved), exact(f.allocated), exact(f.requested), exact(f.pending),
      exact(f.free_in_used), f.fragments, percent(f.free_in_used, f.reserved),
      exact(f.free_segments), exact(f.largest_free));
}

std::vector<const Site*> at_peak(const DeviceSummary& device) {
  std::vector<const Site*> out;
  for (const Site& one : device.sites)
    if (one.bytes > 0) out.push_back(&one);
  return out;
}

std::string when(const DeviceSummary& d) {
  if (d.events == 0) return " (there is no trace: the moment of the file)";
  if (d.peak_event == 0) return " (before the trace's first event)";
  return fmt::format(" after event {} of {}", d.peak_event, d.events);
}

std::string sites_text(const DeviceSummary& d, std::size_t top) {
  const auto sites = at_peak(d);
  return fmt::format("  alive at the peak ({} sites and sizes)\n", sites.size()) +
         first_lines(sites, top, "    ", [&](const Site* one) {
           const std::string lives = lifetime(*one);
           return fmt::format("{} bytes ({}) in {} x {}: {}{}{}", exact(one->bytes),
                              percent(one->bytes, d.peak.active), one->count, exact(one->size),
                              one->site, lives.empty() ? "" : ", ", lives);
         });
}

std::string device_text(const DeviceSummary& d, std::size_t top) {
  std::string out = fmt::format("\ndevice {}: {} events", d.device, d.events);
  if (d.oom) out += fmt::format(", {} out of memory\n  {}", d.ooms, oom_text(*d.oom));
  out += fmt::format("\n  peak: {}{}\n  end:  {}\n", holdings(d.peak), when(d), holdings(d.end));
  if (d.events > 0) out += fmt::format("  begin: {}\n", holdings(d.begin));
  out += d.parts.empty() ? sites_text(d, top)
                         : "  alive at the peak, by kind of tensor\n" + parts_text(d.parts, top);
  if (const auto rows = phase_rows(d, top); !rows.empty()) {
    out += "  peaks of active bytes by step and phase\n";
    for (const auto& row : rows) {
      out += fmt::format("    {:<16}", row.front());
      for (std::size_t i = 1; i < row.size(); ++i)
        out += fmt::format(" {:>{}}", row[i], std::max<std::size_t>(16, rows.front()[i].size()));
      out += "\n";
    }
  }
  for (const std::string& line : repeats_lines(d)) out += "  " + line + "\n";
  if (!d.wastes.empty()) out += "  memory to look at\n" + wastes_text(d, top);
  std::int64_t waiting = 0;
  for (const PendingFree& p : d.pending) waiting += p.size;
  out +=
      fmt::format("  pending frees at the end: {}, {} bytes\n", d.pending.size(), exact(waiting));
  out += first_lines(d.pending, top, "    ", pending_line);
  return out + "  fragmentation: " + fragmentation(d.fragmentation) + "\n";
}

Json holdings_json(const Holdings& h) {
  return {{"allocated", h.allocated}, {"active", h.active}, {"reserved", h.reserved}};
}

Json site_json(const Site& s) {
  return {{"site", s.site},
          {"size", s.size},
          {"count_at_peak", s.count},
          {"bytes_at_peak", s.bytes},
          {"allocations", s.allocations},
          {"ended", s.ended},
          {"mean_lifetime_us", s.ended > 0 ? Json(s.mean_us()) : Json(nullptr)}};
}

Json part_json(const Part& one) {
  return {{"kind", name_of(one.kind)},
          {"module", one.module},
          {"site", one.site},
          {"count", one.count},
          {"bytes", one.bytes}};
}

Json oom_json(const OutOfMemory& oom) {
  Json out{{"site", oom.site},
           {"module", oom.module},
           {"wanted", oom.wanted},
           {"device_free", oom.device_free}};
  if (const auto& request = oom.request)
    out.update({{"asked", request->asked},
                {"limit", request->limit > 0 ? Json(request->limit) : Json(nullptr)},
                {"allocated", request->allocated},
                {"active", request->active},
                {"reserved", request->reserved},
                {"outside", request->outside},
                {"free_in_pools", request->in_pools}});
  return out;
}

Json device_json(const DeviceSummary& d) {
  const Fragmentation& f = d.fragmentation;
  Json out{{"device", d.device},
           {"events", d.events},
           {"ooms", d.ooms},
           {"oom", d.oom ? oom_json(*d.oom) : Json(nullptr)},
           {"begin", holdings_json(d.begin)},
           {"peak", holdings_json(d.peak)},
           {"peak_event", d.peak_event},
           {"end", holdings_json(d.end)},
           {"fragmentation",
            {{"segments", f.segments},
             {"reserved", f.reserved},
             {"allocated", f.allocated},
             {"requested", f.requested},
             {"pending", f.pending},
             {"free_in_used_segments", f.free_in_used},
             {"free_segments", f.free_segments},
             {"fragments", f.fragments},
             {"largest_free", f.largest_free}}},
           {"sites", Json::array()},
           {"pending", Json::array()}};
  for (const Site& one : d.sites) out["sites"].push_back(site_json(one));
  for (const Part& one : d.parts) out["parts"].push_back(part_json(one));
  for (const Part& one : d.left) out["left"].push_back(part_json(one));
  for (const PhasePeak& one : d.phases)
    out["phases"].push_back(
        {{"step", one.step}, {"name", one.name}, {"peak", holdings_json(one.peak)}});
  for (const Waste& waste : d.wastes) {
    Json entry{{"name", waste.name},
               {"bytes", waste.bytes ? Json(*waste.bytes) : Json(nullptr)},
               {"active", waste.active},
               {"parts", Json::array()}};
    for (const Part& one : waste.parts) entry["parts"].push_back(part_json(one));
    out["wastes"].push_back(std::move(entry));
  }
  for (const PendingFree& p : d.pending)
    out["pending"].push_back(
        {{"site", p.site},
         {"address", p.address},
         {"size", p.size},
         {"stream", p.stream},
         {"waiting_us", p.waiting_us < 0 ? Json(nullptr) : Json(p.waiting_us)}});
  return out;
}

std::string sizes_text(const std::map<std::int64_t, Site>& sizes) {
  constexpr std::size_t kShown = 3;
  std::vector<const Site*> alive;
  for (const auto& [size, one] : sizes)
    if (one.count > 0) alive.push_back(&one);
  if (alive.empty()) return "none";
  std::ranges::stable_sort(alive, std::greater{}, &Site::bytes);
  std::string out;
  for (const Site* one : alive | std::views::take(kShown))
    out += fmt::format("{}{} x {}", out.empty() ? "" : " + ", one->count, exact(one->size));
  if (alive.size() > kShown)
    out += fmt::format(" + {} more", plural(alive.size() - kShown, "size"));
  return out;
}

std::string change_line(const SiteChange& c) {
  const std::string sizes[] = {sizes_text(c.sizes_before), sizes_text(c.sizes_after)};
  std::string out = fmt::format(
      "{} bytes at the peak ({} -> {}), {}: {}", signed_bytes(c.after.bytes - c.before.bytes),
      exact(c.before.bytes), exact(c.after.bytes),
      sizes[0] == sizes[1] ? sizes[0] : sizes[0] + " -> " + sizes[1], c.site);
  if (c.before.allocations != c.after.allocations)
    out +=
        fmt::format("; allocated {} times -> {} times", c.before.allocations, c.after.allocations);
  if (c.before.ended != c.after.ended)
    out += fmt::format("; freed {} times -> {} times", c.before.ended, c.after.ended);
  return c.was.empty() ? out : out + "; it was " + c.was;
}

}  // namespace

std::vector<std::vector<std::string>> phase_rows(const DeviceSummary& d, std::size_t top,
                                                 std::string (*figure)(Bytes)) {
  std::vector<std::string> names{"step"};
  std::map<std::int64_t, std::map<std::string, std::int64_t>> steps;
  std::int64_t highest = 0, level = -1;
  for (const PhasePeak& one : d.phases) {
    if (std::ranges::find(names, one.name) == names.end()) names.push_back(one.name);
    steps[one.step][one.name] = one.peak.active;
    if (one.peak.active > level) highest = one.step, level = one.peak.active;
  }
  std::vector<std::vector<std::string>> rows;
  std::size_t count = 0;
  for (const auto& [step, peaks] : steps) {
    if (++count > top && step != highest && step != steps.rbegin()->first) continue;
    std::vector<std::string> row{std::to_string(step) + (step == highest ? ", the highest" : "")};
    for (std::size_t i = 1; i < names.size(); ++i) {
      const auto peak = peaks.find(names[i]);
      row.push_back(peak == peaks.end() ? ""
                    : figure == nullptr ? exact(peak->second)
                                        : figure(peak->second));
    }
    rows.push_back(std::move(row));
  }
  if (!rows.empty()) rows.insert(rows.begin(), std::move(names));
  return rows;
}

std::vector<std::string> repeats_lines(const DeviceSummary& d) {
  std::vector<std::string> lines;
  for (const RepeatedSteps& one : d.repeats)
    lines.push_back(fmt::format("{}: the same events came again {}",
                                one.first == one.last
                                    ? fmt::format("step {}", one.first)
                                    : fmt::format("steps {} to {}", one.first, one.last),
                                plural(one.count, "time")));
  for (const SkippedSteps& one : d.skipped)
    lines.push_back(fmt::format(
        "{}: {} that left nothing behind {} not kept, none of them at the highest peak "
        "(tidemark exec --events all keeps them)",
        one.first == one.last ? plural(one.count, "repetition")
                              : fmt::format("steps {} to {}", exact(one.first), exact(one.last)),
        plural(one.events, "event"), one.events == 1 ? "is" : "are"));
  return lines;
}

std::string snapshot_text(const Named& named, std::size_t top) {
  const auto devices = analyse(named.snapshot);
  std::string out = fmt::format(
      "{}: {}, {}\nallocated and active as requested, in bytes; the peak is that "
      "of active\n",
      one_line(named.path), plural(std::ssize(named.snapshot.segments), "segment"),
      plural(std::ssize(devices), "device"));
  for (const auto& [name, value] : named.snapshot.settings)
    if (name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF" ||
        (name == "expandable_segments" && value == "True"))
      out += fmt::format("{}: {}\n", one_line(name), one_line(value));
  if (!named.snapshot.failure.empty())
    out += "the history ends early: " + one_line(named.snapshot.failure) + "\n";
  for (const DeviceSummary& device : devices) out += device_text(device, top);
  return out;
}

std::string snapshot_summary_json(const Named& named) {
  Json out{{"schema", "tidemark/snapshot-summary"},
           {"schema_version", "1.0"},
           {"file", named.path},
           {"devices", Json::array()}};
  if (!named.snapshot.failure.empty()) out["failure"] = named.snapshot.failure;
  for (const DeviceSummary& device : analyse(named.snapshot))
    out["devices"].push_back(device_json(device));
  return json_text(out);
}

std::string difference_text(const Named& before, const Named& after, std::size_t top) {
  const auto changes = changes_between(before.snapshot, after.snapshot);
  const std::int64_t a = peak_of_active(before.snapshot), b = peak_of_active(after.snapshot);
  std::string out = fmt::format("A: {}\nB: {}\npeak of active: {} -> {} bytes ({})\n",
                                one_line(before.path), one_line(after.path), exact(a), exact(b),
                                a == b ? "no difference" : signed_bytes(b - a));
  out += first_lines(changes, top, "  ", change_line);
  return out + fmt::format("{} sites differ\n", changes.size());
}

std::string difference_json(const Named& before, const Named& after) {
  Json out{
      {"schema", "tidemark/snapshot-difference"},
      {"schema_version", "2.1"},
      {"a", before.path},
      {"b", after.path},
      {"peak", {{"a", peak_of_active(before.snapshot)}, {"b", peak_of_active(after.snapshot)}}},
      {"sites", Json::array()}};
  const auto side = [](const std::map<std::int64_t, Site>& sizes) {
    Json all = Json::array();
    for (const auto& [size, one] : sizes) {
      all.push_back(site_json(one));
      all.back().erase("site");
    }
    return all;
  };
  for (const SiteChange& c : changes_between(before.snapshot, after.snapshot))
    out["sites"].push_back({{"site", c.site},
                            {"was", c.was.empty() ? c.site : c.was},
                            {"bytes_at_peak", c.after.bytes - c.before.bytes},
                            {"a", side(c.sizes_before)},
                            {"b", side(c.sizes_after)}});
  return json_text(out);
}

}  // namespace tidemark
