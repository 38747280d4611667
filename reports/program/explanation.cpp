#include "reports/program/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <span>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/memory/settings.h"
#include "harness/memory/site.h"
#include "harness/memory/stack_phases.h"
#include "harness/record/units.h"
#include "reports/program/finding.h"
#include "reports/program/picture_data.h"

namespace tidemark {
namespace {

/// "rank3" of "oom_rank3.pickle", "rank_3.json.gz" and "rank-03_oom.pickle"; else the file's name
/// without its ends.
std::string process_of(const std::string& file) {
  std::filesystem::path stem = std::filesystem::path(file).filename();
  while (stem.extension() == ".gz" || stem.extension() == ".json" ||
         stem.extension() == ".pickle" || stem.extension() == ".record" ||
         stem.extension() == ".pkl")
    stem = stem.stem();
  const std::string name = one_line(stem.string());
  const std::size_t word = name.find("rank");
  if (word == name.npos) return name;
  std::size_t at = word + 4;
  while (at < name.size() && (name[at] == '_' || name[at] == '-')) ++at;
  std::size_t end = at;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  while (at + 1 < end && name[at] == '0') ++at;
  return end == at ? name : "rank" + name.substr(at, end - at);
}

std::vector<PoolRow> pools_of(const Snapshot& s, std::size_t device) {
  std::map<PoolId, PoolRow> pools;
  for (const Segment& segment : s.segments) {
    if (static_cast<std::size_t>(segment.device) != device || segment.pool == PoolId{}) continue;
    PoolRow& row = pools[segment.pool];
    row.pool = segment.pool;
    row.reserved += segment.total_size;
    for (const MemoryBlock& block : segment.blocks)
      if (block.state != BlockState::inactive) row.in_use += block.size;
  }
  std::vector<PoolRow> out;
  for (const auto& [pool, row] : pools) out.push_back(row);
  std::ranges::stable_sort(out, std::greater(), &PoolRow::reserved);
  return out;
}

/// Bytes of a kind by line, the most first; modules do not count.
std::vector<std::pair<std::string, Bytes>> lines_of(std::span<const Part> parts) {
  std::map<std::string, Bytes> sums;
  for (const Part& part : parts) sums[part.site] += part.bytes;
  std::vector<std::pair<std::string, Bytes>> out(sums.begin(), sums.end());
  std::ranges::stable_sort(out, std::greater(), [](const auto& one) { return one.second; });
  return out;
}

/// The line of the activations with most bytes, "model.py:88".
std::string largest_line(const std::vector<Part>& parts) {
  for (const TensorKind& kind : kinds_of(parts)) {
    if (kind.kind != MemoryKind::activations) continue;
    for (const auto& [site, bytes] : lines_of(kind.parts)) {
      const std::size_t colon = site.rfind(".py:");
      if (colon == std::string::npos) continue;
      const std::size_t begin = site.rfind(' ', colon);
      const std::size_t end = site.find(' ', colon);
      return site.substr(begin == std::string::npos ? 0 : begin + 1,
                         end == std::string::npos ? end : end - begin - 1);
    }
  }
  return "";
}

/// The phase in which memory ran out: that of the last block before it, if none is around it.
std::string phase_of(const MemoryPicture& picture, const DeviceSummary& device) {
  if (!device.oom) return phase_text(picture, picture.peak);
  const std::size_t moment = std::min(device.oom->event + 1, picture.events.size() - 1);
  if (const std::string around = phase_text(picture, moment); !around.empty()) return around;
  return moment > 0 ? phase_text(picture, moment - 1) : "";
}

/// "activations 38.2 GiB (20 GiB: forward model.py:88), gradients 14.9 GiB, ..."
std::string made_of(const std::vector<Part>& parts) {
  std::vector<std::string> out;
  for (const TensorKind& kind : kinds_of(parts)) {
    const auto lines = lines_of(kind.parts);
    const auto& [line, bytes] = lines.front();
    out.push_back(fmt::format(
        "{} {}{}", name_of(kind.kind), bytes_text(kind.bytes),
        line.empty()
            ? ""
            : fmt::format(" ({}{})", lines.size() == 1 ? "" : bytes_text(bytes) + ": ", line)));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

/// The lines with most bytes, where kinds are not known.
std::string largest_lines(const DeviceSummary& device) {
  constexpr std::size_t kNamed = 5;
  std::map<std::string, Bytes> sums;
  for (const Site& one : device.sites)
    if (!one.site.starts_with('(')) sums[one.site] += one.bytes;
  std::vector<std::pair<std::string, Bytes>> all(sums.begin(), sums.end());
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::erase_if(all, [](const auto& one) { return one.second == 0; });
  std::vector<std::string> out;
  for (const auto& [site, bytes] : all) {
    if (out.size() == kNamed) break;
    out.push_back(fmt::format("{}: {}", bytes_text(bytes), site));
  }
  if (all.size() > kNamed)
    out.push_back(fmt::format("and {} more", plural(all.size() - kNamed, "line")));
  return fmt::format("{}", fmt::join(out, ", "));
}

bool ran_out(const ExplainedDevice& one) { return one.device.oom.has_value(); }

Bytes unused(const Holdings& held) { return std::max<Bytes>(held.reserved - held.active, 0); }

std::string headline_of(const ExplainedDevice& one, const std::vector<ExplainedDevice>& all) {
  const DeviceSummary& d = one.device;
  if (!d.oom)
    return fmt::format("{}: {} of active memory at most{}{}, {} reserved then",
                       all.size() > 1
                           ? "no rank ran out of memory; " + one.name + " has the highest peak"
                           : one.name + " did not run out of memory",
                       bytes_text(d.peak.active), one.phase.empty() ? "" : ", ", one.phase,
                       bytes_text(d.peak.reserved));
  const auto others = std::ranges::count_if(all, ran_out) - 1;
  const bool timed = std::ranges::all_of(
      all, [](const ExplainedDevice& each) { return !ran_out(each) || each.out_at > 0; });
  std::string out = one.name + " ran out of memory";
  if (others > 0) out += timed ? " first" : " (which rank did so first is not recorded)";
  const OutOfMemory& oom = *d.oom;
  return out + fmt::format(": {} asked for{}{}{}, {} free, {} reserved but unused",
                           bytes_text(oom.wanted), one.phase.empty() ? "" : " ", one.phase,
                           oom.site.starts_with('(') ? "" : " by " + oom.site,
                           bytes_text(oom.device_free), bytes_text(unused(oom.held)));
}

/// "graph pool (1, 0): 38.2 GiB reserved, 6.3 GiB in use". PyTorch numbers the pool of one graph in
/// the first place, and what a program makes itself (graph_pool_handle, MemPool) in the second.
std::string pool_text(const PoolRow& row) {
  const bool one_graph = row.pool[0] != 0;
  return fmt::format("{} pool ({}, {}){}: {} reserved, {} in use", one_graph ? "graph" : "private",
                     row.pool[0], row.pool[1],
                     one_graph ? "" : " (of graphs that share it, or a MemPool)",
                     bytes_text(row.reserved), bytes_text(row.in_use));
}

/// The sum and the largest of what is too many to be named.
std::vector<std::string> pools_text(const ExplainedDevice& one) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> out;
  PoolRow rest;
  for (const PoolRow& row : one.pools) {
    if (out.size() < kNamed) {
      out.push_back(pool_text(row));
    } else {
      rest.reserved += row.reserved, rest.in_use += row.in_use;
    }
  }
  if (one.pools.size() > kNamed)
    out.push_back(fmt::format(
        "{}: {} reserved, {} in use",
        plural(static_cast<std::int64_t>(one.pools.size() - kNamed), "smaller private pool"),
        bytes_text(rest.reserved), bytes_text(rest.in_use)));
  return out;
}

/// Pinned memory of the host, which is none of a GPU's.
std::string host_text(const Snapshot& s) {
  if (s.host.empty()) return "";
  std::map<std::int64_t, const AllocatorEvent*> alive, at_peak;
  Bytes now = 0, peak = 0;
  for (const AllocatorEvent& e : s.host) {
    const auto known = alive.find(e.address);
    if (e.action == AllocatorAction::alloc) {
      if (known != alive.end()) now -= known->second->size;
      alive[e.address] = &e;
      now += e.size;
    } else if (e.action == AllocatorAction::free_completed && known != alive.end()) {
      now -= known->second->size;
      alive.erase(known);
    }
    if (now > peak) peak = now, at_peak = alive;
  }
  std::map<std::string, Bytes> lines;
  for (const auto& [address, event] : at_peak) lines[site_of(s, event->stack)] += event->size;
  const auto most = std::ranges::max_element(lines, {}, [](const auto& one) { return one.second; });
  return fmt::format(
      "pinned memory of the host: {} at most{}, {} at the end of the file", bytes_text(peak),
      most == lines.end() ? "" : fmt::format(" ({}: {})", bytes_text(most->second), most->first),
      bytes_text(now));
}

/// The parts where memory ran out, or at the peak.
const std::vector<Part>& parts_of(const ExplainedDevice& one) {
  return one.device.oom ? one.device.oom->parts : one.device.parts;
}

/// "rank 1 has the highest peak: 12 GiB, 3 GiB more than rank 0, which has the lowest: activations
/// +2.5 GiB, other +0.5 GiB"; empty with one device.
std::string differences(const std::vector<ExplainedDevice>& all) {
  if (all.size() < 2) return "";
  const auto peak = [](const ExplainedDevice& one) { return one.device.peak.active; };
  const auto [low, high] = std::ranges::minmax_element(all, {}, peak);
  if (peak(*low) == peak(*high))
    return fmt::format("all have the same peak: {}", bytes_text(peak(*high)));
  std::map<MemoryKind, Bytes> kinds;
  for (const Part& part : high->device.parts) kinds[part.kind] += part.bytes;
  for (const Part& part : low->device.parts) kinds[part.kind] -= part.bytes;
  const bool known = !high->device.parts.empty() && !low->device.parts.empty();
  std::vector<std::pair<MemoryKind, Bytes>> sorted(kinds.begin(), kinds.end());
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const auto& one) { return std::abs(one.second); });
  std::vector<std::string> parts;
  for (const auto& [kind, bytes] : sorted)
    if (bytes != 0 && known && parts.size() < 3)
      parts.push_back(fmt::format("{} {}{}", name_of(kind), bytes > 0 ? "+" : "-",
                                  bytes_text(std::abs(bytes))));
  return fmt::format("{} has the highest peak: {}, {} more than {}, which has the lowest{}{}",
                     high->name, bytes_text(peak(*high)), bytes_text(peak(*high) - peak(*low)),
                     low->name, parts.empty() ? "" : ": ", fmt::join(parts, ", "));
}

}  // namespace

std::vector<ExplainedDevice> explain(Snapshot snapshot, const std::string& file,
                                     std::optional<std::size_t> wished, bool pictures) {
  tell_from_stacks(snapshot);
  const std::string process = process_of(file);
  std::vector<ExplainedDevice> out;
  std::vector<DeviceSummary> devices = analyse(snapshot);
  if (wished && std::ranges::find(devices, *wished, &DeviceSummary::device) == devices.end())
    throw SnapshotError(fmt::format("{}: has no device {}", one_line(file), *wished));
  for (DeviceSummary& device : devices) {
    if (wished && device.device != *wished) continue;
    if (const std::string wrong = contradiction_of(snapshot, device.device); !wrong.empty())
      throw SnapshotError(fmt::format("{}: {}", one_line(file), wrong));
    ExplainedDevice one{.file = file, .name = place_name(process, device.device)};
    MemoryPicture picture = picture_of(snapshot, device);
    one.most_reserved = std::max(device.begin.reserved, device.end.reserved);
    for (const Holdings& held : device.curve)
      one.most_reserved = std::max(one.most_reserved, held.reserved);
    std::vector<Holdings>().swap(device.curve);  // the picture has it
    if (!picture.events.empty()) {
      picture.where = process;
      one.phase = phase_of(picture, device);
      one.growth = growth_of(picture);
      for (const MemoryPicture::Phase& phase : picture.phases)
        one.steps = std::max(one.steps, phase.step);
      if (pictures) one.picture = thinned(std::move(picture), PictureBudget().moments);
    }
    if (device.oom) one.out_at = snapshot.traces[device.device][device.oom->event].time;
    one.limits = limits_of(snapshot, device.device);
    if (!snapshot.failure.empty())
      one.limits.push_back("the history ends early: " + snapshot.failure);
    one.pools = pools_of(snapshot, device.device);
    if (out.empty()) one.host = host_text(snapshot);
    const AllocatorSettings settings = allocator_settings(snapshot);
    one.settings = fmt::format("{}{}{}", settings.expandable ? "expandable_segments:True" : "",
                               settings.expandable && !settings.all_text().empty() ? "," : "",
                               settings.all_text());
    one.next_line = largest_line(device.oom ? device.oom->parts : device.parts);
    one.device = std::move(device);
    out.push_back(std::move(one));
  }
  if (out.empty()) throw SnapshotError(one_line(file) + ": holds no memory of any device");
  return out;
}

const ExplainedDevice* first_of(const std::vector<ExplainedDevice>& all) {
  const auto before = [](const ExplainedDevice& a, const ExplainedDevice& b) {
    if (ran_out(a) != ran_out(b)) return ran_out(a);
    if (ran_out(a) && a.out_at != b.out_at) return a.out_at < b.out_at;
    return a.device.peak.active > b.device.peak.active;
  };
  const auto first = std::ranges::min_element(all, before);
  return first == all.end() ? nullptr : &*first;
}

std::vector<std::string> explanation(const std::vector<ExplainedDevice>& all) {
  const ExplainedDevice* first = first_of(all);
  if (first == nullptr) return {};
  std::vector<std::string> out;
  std::map<std::string, std::size_t> limits;  // by how many devices
  for (const ExplainedDevice& one : all)
    for (const std::string& limit : one.limits) ++limits[limit];
  for (const ExplainedDevice& one : all)
    for (const std::string& limit : one.limits) {
      const auto known = limits.find(limit);
      if (known == limits.end()) continue;  // it was said
      const std::size_t count = known->second;
      limits.erase(known);
      const std::string who = count == all.size() ? "all"
                              : count > 1 ? fmt::format("{} and {} more", one.name, count - 1)
                                          : one.name;
      out.push_back(all.size() == 1 ? limit : fmt::format("{}: {}", who, limit));
    }
  out.push_back(headline_of(*first, all));
  const DeviceSummary& d = first->device;
  const std::vector<Part>& parts = parts_of(*first);
  const std::string made = parts.empty() ? largest_lines(d) : made_of(parts);
  if (!made.empty())
    out.push_back(fmt::format(
        "{}: {}", d.oom && parts.empty() && !d.oom->at_peak ? "made of, at its peak" : "made of",
        made));
  std::vector<StepGrowth> growths;
  for (const ExplainedDevice& one : all)
    if (one.growth) growths.push_back(*one.growth);
  for (const std::string& text : growth_texts(growths, 0))
    out.push_back(fmt::format("{} (the history shows {})", text, plural(first->steps, "step")));
  if (const std::string text = differences(all); !text.empty()) out.push_back(text);
  const auto add = [&](const ExplainedDevice& one, const std::string& text) {
    out.push_back(all.size() > 1 ? one.name + ": " + text : text);
  };
  for (const ExplainedDevice& one : all) {
    for (const std::string& text : pools_text(one)) add(one, text);
    if (!one.host.empty()) add(one, one.host);
  }
  return out;
}

std::vector<std::vector<std::string>> devices_table(const std::vector<ExplainedDevice>& all) {
  if (all.size() < 2) return {};
  std::vector<std::vector<std::string>> rows{
      {"rank", "peak of active", "reserved at most", "ran out of memory", "asked for", "free"}};
  const ExplainedDevice* first = first_of(all);
  for (const ExplainedDevice& one : all) {
    const DeviceSummary& d = one.device;
    std::string when = "no";
    if (d.oom) {
      when = one.out_at > 0 && first->out_at > 0 && &one != first
                 ? fmt::format("{} later{}{}", duration(one.out_at - first->out_at),
                               one.phase.empty() ? "" : ", ", one.phase)
                 : fmt::format("{}{}", one.out_at > 0 ? "first" : "yes",
                               one.phase.empty() ? "" : ", " + one.phase);
    }
    rows.push_back({one.name, figure_cell(d.peak.active), figure_cell(one.most_reserved), when,
                    d.oom ? figure_cell(d.oom->wanted) : "",
                    d.oom ? figure_cell(d.oom->device_free) : ""});
  }
  return rows;
}

}  // namespace tidemark
