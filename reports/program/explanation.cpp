#include "reports/program/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

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

using Json = nlohmann::ordered_json;

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

/// The line of the activations with most bytes, "model.py:88".
std::string largest_line(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    if (part.kind != MemoryKind::activations) continue;
    const std::size_t colon = part.site.rfind(".py:");
    if (colon == std::string::npos) continue;
    const std::size_t begin = part.site.rfind(' ', colon);
    const std::size_t end = part.site.find(' ', colon);
    return part.site.substr(begin == std::string::npos ? 0 : begin + 1,
                            end == std::string::npos ? end : end - begin - 1);
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
    const std::string& line = kind.parts.front().site;
    const bool all = kind.parts.size() == 1;
    out.push_back(fmt::format(
        "{} {}{}", name_of(kind.kind), bytes_text(kind.bytes),
        line.empty() ? ""
                     : fmt::format(" ({}{})",
                                   all ? "" : bytes_text(kind.parts.front().bytes) + ": ", line)));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

/// The lines with most bytes, where kinds are not known.
std::string lines_of(const DeviceSummary& device) {
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

std::string spare(Bytes bytes) { return fmt::format("{} to spare", bytes_text(bytes)); }

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

/// Memory that the allocator gives back or keeps apart: not the program's.
std::string pools_text(const ExplainedDevice& one) {
  std::vector<std::string> out;
  for (const PoolRow& row : one.pools)
    out.push_back(fmt::format("({}, {}): {} reserved, {} in use", row.pool[0], row.pool[1],
                              bytes_text(row.reserved), bytes_text(row.in_use)));
  return fmt::format("private pools (of CUDA graphs and MemPools) when the file was written: {}",
                     fmt::join(out, "; "));
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
  const std::vector<Part>& parts = d.oom ? d.oom->parts : d.parts;
  const std::string made = parts.empty() ? lines_of(d) : made_of(parts);
  if (!made.empty())
    out.push_back(fmt::format(
        "{}: {}", d.oom && parts.empty() && !d.oom->at_peak ? "made of, at its peak" : "made of",
        made));
  std::vector<StepGrowth> growths;
  for (const ExplainedDevice& one : all)
    if (one.growth) growths.push_back(*one.growth);
  for (const std::string& text : growth_texts(growths, 0))
    out.push_back(fmt::format("{} (the history shows {})", text, plural(first->steps, "step")));
  for (const ExplainedDevice& one : all)
    if (!one.pools.empty()) out.push_back(fmt::format("{}: {}", one.name, pools_text(one)));
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

std::string answer_text(const Json& answer, const ExplainedDevice& of) {
  if (answer.contains("refused")) return "not known: " + answer.at("refused").get<std::string>();
  const auto reserved = answer.at("reserved_peak").get<Bytes>();
  const auto retries = answer.at("retries").get<std::int64_t>();
  const std::string after =
      retries > 0 ? fmt::format(", after {}", plural(retries, "retry", "retries")) : "";
  const bool limited = !answer.at("capacity").is_null();
  if (const Json& out = answer.at("ran_out"); !out.is_null()) {
    const bool same = of.device.oom && out.at("event") == of.device.oom->event;
    return fmt::format(
        "no: {}{} asked for with {} free{}",
        same ? "the same request fails, "
             : fmt::format("it fails after {}, ",
                           plural(answer.at("allocations").get<std::int64_t>(), "allocation")),
        bytes_text(out.at("wanted").get<Bytes>()), bytes_text(out.at("device_free").get<Bytes>()),
        after);
  }
  if (const auto again = answer.at("refused_again").get<int>();
      again > 0 && answer.at("served_refused").is_null())
    return fmt::format("no: {} as recorded{}",
                       again == 1 ? "the same request fails" : "the same requests fail", after);
  const std::string until =
      answer.at("served_refused").is_null() ? "" : ", up to the request that failed";
  if (!limited) return fmt::format("{} reserved at most{}", bytes_text(reserved), until);
  const auto capacity = answer.at("capacity").get<Bytes>();
  return fmt::format("yes{}: {}{}", until, spare(capacity - reserved), after);
}

std::vector<std::vector<std::string>> changes_table(const ChangesTried& changes,
                                                    const ExplainedDevice& of) {
  std::vector<std::vector<std::string>> rows{{"change", "fits", "reserved at most"}};
  for (const auto& [name, answer] : changes) {
    const bool known = !answer.contains("refused");
    rows.push_back({name, answer_text(answer, of),
                    known ? figure_cell(answer.at("reserved_peak").get<Bytes>()) : ""});
  }
  return rows;
}

std::vector<std::string> assumptions(const ChangesTried& changes, const ExplainedDevice& of) {
  std::vector<std::string> out;
  Bytes before = 0, capacity = 0;
  std::size_t forced = 0, held = 0;
  Bytes forced_bytes = 0;
  bool any = false, fraction = false, edits = false, until = false;
  for (const auto& [name, answer] : changes) {
    if (answer.contains("refused")) continue;
    any = true;
    before = answer.at("bytes_before").get<Bytes>();
    forced = answer.at("forced_frees").get<std::size_t>();
    forced_bytes = answer.at("forced_bytes").get<Bytes>();
    if (answer.at("retries").get<std::int64_t>() > 0)
      held = std::max(held, answer.at("held_frees").get<std::size_t>());
    if (!answer.at("capacity").is_null()) capacity = answer.at("capacity").get<Bytes>();
    fraction |= name.find("garbage_collection") != name.npos && name.find("fraction") == name.npos;
    edits |= !answer.at("edits").empty();
    until |= name.ends_with("until backward");
  }
  if (!any) return out;
  out.push_back(fmt::format(
      "the recorded allocations and frees are made again in PyTorch's own allocator{}; frees that "
      "waited for another stream come back at the recorded place, and new segments lie where "
      "Linux's driver puts them",
      capacity > 0 ? fmt::format(", which can have {}", bytes_text(capacity)) : ""));
  if (of.device.oom)
    out.emplace_back("what the program asks for after the request that failed is not recorded");
  if (of.device.oom && of.settings.find("roundup_power2_divisions") != of.settings.npos)
    out.emplace_back(
        "the request that failed is recorded as roundup_power2_divisions rounded it: it may have "
        "been smaller, and more is to spare then");
  if (of.device.oom && capacity == 0)
    out.emplace_back(
        "the device had room for the request that failed, so the process has a limit of its own (a "
        "memory fraction), which the file does not have: --capacity names it");
  if (held > 0)
    out.push_back(fmt::format(
        "a retry waits for all streams: after it some of {} that waited for a stream may come back "
        "earlier than recorded",
        plural(static_cast<std::int64_t>(held), "free")));
  if (before > 0)
    out.push_back(
        fmt::format("a setting holds from the begin of the history on: the {} that were reserved "
                    "before it stay "
                    "as they are",
                    bytes_text(before)));
  if (forced > 0)
    out.push_back(fmt::format(
        "{} of {} may have come back because an allocation waited for them: under another setting "
        "they may come back later",
        plural(static_cast<std::int64_t>(forced), "free"), bytes_text(forced_bytes)));
  if (edits) out.emplace_back("an edit changes nothing but the named blocks");
  if (until)
    out.emplace_back(
        "'until backward' gives the blocks back when the backward begins; what a recomputation "
        "allocates again in it is not counted");
  if (fraction)
    out.emplace_back(
        "garbage_collection_threshold takes effect with per_process_memory_fraction alone");
  return out;
}

}  // namespace tidemark
