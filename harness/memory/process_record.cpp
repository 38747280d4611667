#include "harness/memory/process_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "harness/memory/record_bytes.h"
#include "harness/record/budget.h"
#include "harness/record/file.h"
#include "harness/record/units.h"

namespace tidemark {

using recorder::Figures;
using recorder::Header;
using recorder::kDevices;
using recorder::kHeader;
using recorder::rounded;

namespace {

using FiguresOfDevice = std::array<std::int64_t, sizeof(Figures) / sizeof(std::int64_t)>;
constexpr std::int64_t kFarthest = std::int64_t{1} << 56;  // so that all devices' can be added

}  // namespace

std::optional<RecordBytes> read_record(const std::filesystem::path& path, bool entries) {
  RecordBytes out;
  out.bytes = first_bytes(path, kHeader);
  if (out.bytes.empty() && !std::filesystem::is_regular_file(path))
    throw SnapshotError(path.string() + ": cannot be read: it is not there, or is no file");
  if (out.bytes.size() < kHeader || out.header().magic == 0) return std::nullopt;
  if (out.header().magic != recorder::kMagic)
    throw SnapshotError(path.string() + (is_record(out.bytes)
                                             ? ": was written by another version of tidemark"
                                             : ": is not a record of tidemark exec"));
  const auto& devices = out.header().moment().devices;
  for (std::size_t i = 0; i < kDevices; ++i)
    for (const std::int64_t figure : std::bit_cast<FiguresOfDevice>(devices[i]))
      if (figure < -kFarthest || figure > kFarthest)
        throw SnapshotError(
            fmt::format("{}: is damaged: cuda:{} has a figure of {}", path.string(), i, figure));
  if (!entries) return out;
  const std::uint64_t size = std::filesystem::file_size(path),
                      committed = std::min(out.header().moment().size, size - kHeader);
  spend_on(path.string(), kHeader + committed, true);  // an event is a few bytes there
  out.bytes = first_bytes(path, kHeader + committed);
  const recorder::Moment& moment = out.header().moment();
  const std::uint64_t from = moment.left_from, to = std::min(moment.left_to, committed);
  if (from < to) out.bytes.erase(kHeader + from, to - from);
  return out;
}

namespace {

DeviceRecord device_of(std::size_t number, const Figures& f) {
  const Bytes last = rounded(f.unsettled);
  DeviceRecord out;
  out.device = static_cast<int>(number);
  out.allocated = std::max(f.allocated_peak, f.allocated + last);
  out.active = std::max(f.active_peak, f.active + last);
  out.reserved = f.reserved_peak;
  out.requested = std::max(f.requested_peak, f.requested + f.unsettled);
  out.retries = f.retries;
  out.ooms = f.ooms;
  out.outside = f.outside_peak;
  out.taken = std::max(f.taken_peak, f.reserved_peak);
  out.refused = f.refused, out.refused_left = f.refused_left;
  out.limit = f.limit;
  return out;
}

}  // namespace

std::optional<ProcessMemory> record_figures(const std::filesystem::path& path) {
  const auto record = read_record(path, false);
  if (!record) return std::nullopt;
  const Header& header = record->header();
  ProcessMemory out;
  out.pid = static_cast<int>(header.pid);
  out.ended = header.ended.load() != 0;
  if (header.rank.load() >= 0) out.rank = static_cast<int>(header.rank.load());
  const auto& devices = header.moment().devices;
  for (std::size_t i = 0; i < kDevices; ++i)
    if (devices[i].used != 0) out.devices.push_back(device_of(i, devices[i]));
  out.has_events = header.has_events != 0;
  const std::string phase(header.phase, strnlen(header.phase, sizeof header.phase));
  Bytes allocated = 0;
  for (const Figures& f : devices) allocated += f.allocated + rounded(f.unsettled);
  if (!phase.empty()) out.last = fmt::format("in {} of step {}, ", one_line(phase), header.step);
  if (phase.empty() && header.step > 0) out.last = fmt::format("in step {}, ", header.step);
  out.last += "with " + bytes_text(allocated) + " allocated";
  return out;
}

}  // namespace tidemark
