#include "reports/program/memory_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/gzip.h"
#include "harness/virtual/device/nesting.h"

namespace nlohmann {

/// null: none.
template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& to, const std::optional<T>& from) {
    to = from ? json(*from) : json(nullptr);
  }
  static void from_json(const json& from, std::optional<T>& to) {
    to = from.is_null() ? std::nullopt : std::make_optional(from.get<T>());
  }
};

/// Its word.
template <>
struct adl_serializer<tidemark::MemoryKind> {
  static void to_json(json& to, tidemark::MemoryKind from) { to = tidemark::name_of(from); }
  static void from_json(const json& from, tidemark::MemoryKind& to) {
    const auto kind = tidemark::memory_kind(from.get<std::string>());
    if (!kind) throw json::other_error::create(501, "no kind of memory", &from);
    to = *kind;
  }
};

}  // namespace nlohmann

namespace tidemark {

constexpr int kMemoryVersion = 2;

// Members that are missing are an error.
#define FIELDS NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE

using Picture = MemoryPicture;
using SkippedMoment = ProgramPhase::Moment;

FIELDS(AlivePart, kind, module, site, count, bytes)
FIELDS(Holdings, allocated, active, reserved)
FIELDS(Waste, name, bytes, active, parts, process)
FIELDS(PhasePeak, step, name, peak)
FIELDS(OutOfMemory, site, module, wanted, device_free, held, at_peak, parts, process)
FIELDS(Fragmentation, segments, reserved, allocated, requested, pending, free_in_used,
       free_segments, largest_free, fragments)
FIELDS(RepeatedSteps, first, last, count)
FIELDS(SkippedMoment, allocations, frees)
FIELDS(SkippedSteps, device, first, last, count, events, at)
FIELDS(DeviceSummary, device, events, ooms, oom, begin, peak, end, peak_event, parts, left, wastes,
       phases, repeats, skipped, fragmentation)
FIELDS(LeftAtEnd, process, bytes, parts)
FIELDS(Holder, name, is_cycle, is_work)
FIELDS(Picture::Place, kind, module, site, file, line, source, holder)
FIELDS(Picture::Phase, name, step, from, to)
FIELDS(StepGrowth, where, device, unit, every, since, last, least, most, filled, reserved, parts,
       holders, often, replaced)

// There are hundreds of thousands of blocks.
void to_json(nlohmann::json& to, const Picture::Block& from) {
  to = {from.place, from.bytes, from.from, from.waits, from.until};
}
void from_json(const nlohmann::json& from, Picture::Block& to) {
  from.at(0).get_to(to.place);
  from.at(1).get_to(to.bytes);
  from.at(2).get_to(to.from);
  from.at(3).get_to(to.waits);
  from.at(4).get_to(to.until);
}

FIELDS(MemoryPicture, where, device, in_all, events, reserved, peak, places, blocks, phases,
       left_steps, whole_from)
FIELDS(HighestPeak, schedule, device, ooms, left, pictures, growths, unreadable)

#undef FIELDS

namespace {

/// True if every place and every moment is one that the picture has.
bool is_whole(const Picture& one) {
  const std::size_t moments = one.events.size();
  return one.reserved.size() == moments && one.peak < std::max<std::size_t>(moments, 1) &&
         one.whole_from <= moments &&
         std::ranges::all_of(one.blocks,
                             [&](const Picture::Block& block) {
                               return block.place < one.places.size() &&
                                      block.from <= block.waits && block.waits <= block.until &&
                                      block.until <= moments;
                             }) &&
         std::ranges::all_of(one.phases,
                             [&](const Picture::Phase& phase) {
                               return phase.from <= phase.to && phase.to <= moments;
                             }) &&
         std::ranges::all_of(one.left_steps,
                             [&](const auto& step) { return step.second <= moments; });
}

}  // namespace

std::string memory_file(const HighestPeak& peak) {
  nlohmann::json all = peak;
  all["schema"] = "tidemark/memory";
  all["version"] = kMemoryVersion;
  all["snapshot"] = peak.file.filename().string();
  return gzip(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

HighestPeak read_memory(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why) {
    return std::runtime_error(
        fmt::format("{}: {}; remove it, and the snapshots beside it are read", path.string(), why));
  };
  const auto text = gunzip(read_bytes(path));
  if (!text) throw refuse("is not gzip, or is cut off");
  if (is_too_deep(*text)) throw refuse(kTooDeep);
  try {
    const nlohmann::json all = nlohmann::json::parse(*text);
    if (all.at("version").get<int>() != kMemoryVersion)
      throw refuse("is of another version of tidemark");
    HighestPeak out = all.get<HighestPeak>();
    if (!std::ranges::all_of(out.pictures, is_whole))
      throw refuse("has a picture with a block, a phase or a step beyond its end");
    out.folder = path.parent_path();
    if (const std::string name = all.at("snapshot"); !name.empty()) out.file = out.folder / name;
    return out;
  } catch (const nlohmann::json::exception&) {
    throw refuse("is not what tidemark has written");
  }
}

}  // namespace tidemark
