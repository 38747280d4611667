#include "harness/virtual/device/copy.h"

#include <algorithm>
#include <cstring>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/memory_use.h"
#include "harness/virtual/device/race_detector.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/stream.h"

namespace tidemark::device {
namespace {

// In shapes a device-to-host copy that is accepted leaves 0xFF behind ("no value", NaN), never a
// stale number. In pinned memory, to which programs offload gigabytes that the host does not look
// at, only in its first bytes.
constexpr std::size_t kNoValueBytesPinned = 64 << 10;

enum class Place { pageable, pinned, device };
struct Side {
  Place place = Place::pageable;
  int device = -1;
};

std::size_t extent(const Rectangle& r, std::size_t pitch, std::size_t slice) {
  return (r.depth - 1) * slice + (r.height - 1) * pitch + r.width;
}

// False: the range leaves its allocation.
bool locate(const void* address, std::size_t bytes, Side& side) {
  side.device = device_of(address);
  if (side.device >= 0) {
    side.place = Place::device;
    std::lock_guard lock(engine().mutex);
    return device_holding(reinterpret_cast<std::uintptr_t>(address), bytes) == side.device;
  }
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  for (const DeviceMemory* memory : engine().memory) {
    if (value - memory->span.begin < memory->span.bytes)
      return false;  // device memory that is not allocated
  }
  const Span mappings = mapping_span();
  if (value - mappings.begin < mappings.bytes) return false;
  side.place = is_pinned(address) ? Place::pinned : Place::pageable;
  return true;
}

bool direction_fits(cudaMemcpyKind kind, Side to, Side from) {
  const bool to_device = to.place == Place::device, from_device = from.place == Place::device;
  const bool to_any = to.place != Place::pageable,
             from_any = from.place != Place::pageable;  // pinned is mapped
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_any && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_any;
    case cudaMemcpyDeviceToDevice:
      return to_any && from_any;
    default:
      return kind == cudaMemcpyDefault;
  }
}

// Calls `row` with the beginning of each row of both sides.
template <class Row>
void each_row(void* to, const void* from, const Rectangle& r, Row row) {
  for (std::size_t z = 0; z < r.depth; ++z) {
    for (std::size_t y = 0; y < r.height; ++y) {
      row(static_cast<char*>(to) + z * r.to_slice + y * r.to_pitch,
          static_cast<const char*>(from) + z * r.from_slice + y * r.from_pitch);
    }
  }
}

void move(void* to, const void* from, const Rectangle& r) {
  each_row(to, from, r, [&](char* t, const char* f) { std::memmove(t, f, r.width); });
}

bool rows_known(void* to, const void* from, const Rectangle& r) {
  bool all = true;
  each_row(to, from, r, [&](char*, const char* f) { all = all && is_known(f, r.width); });
  return all;
}
void mark_rows(void* to, const Rectangle& r, bool known) {
  each_row(to, to, r, [&](char* t, const char*) { mark_known(t, r.width, known); });
}
void leave_no_value(void* to, const void* from, const Rectangle& r, bool pinned) {
  std::size_t left = pinned ? kNoValueBytesPinned : r.width * r.height * r.depth;
  each_row(to, from, r, [&](char* row, const char*) {
    const std::size_t part = std::min(left, r.width);
    std::memset(row, 0xff, part);
    left -= part;
  });
}
// A copy to the device in mode known.
void move_known(void* to, const void* from, const Rectangle& r, bool from_host) {
  if (!from_host)
    return each_row(to, from, r, [&](char* t, const char* f) { copy_known(t, f, r.width); });
  const bool kept = r.width * r.height * r.depth <= known_limit();
  if (kept) move(to, from, r);
  mark_rows(to, r, kept);
}

void write_rows(void* to, unsigned value, std::size_t unit, const Rectangle& r) {
  each_row(to, to, r, [&](char* row, const char*) {
    if (unit == 1) {
      std::memset(row, static_cast<int>(value & 0xff), r.width);
    } else {
      for (std::size_t x = 0; x + unit <= r.width; x += unit) std::memcpy(row + x, &value, unit);
    }
  });
}

// Notes the accesses of one side of a copy, for race detection. The host's pageable memory belongs
// to one thread.
void note_access(const Stream& s, const char* name, Side side, const void* address,
                 const Rectangle& r, std::size_t pitch, std::size_t slice, bool write) {
  if (!race::is_on() || side.place == Place::pageable) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const bool one_row = r.height == 1 || pitch == r.width;
  for (std::size_t z = 0; z < r.depth; ++z) {
    race::note(s, name,
               one_row ? race::Footprint{begin + z * slice, r.width * r.height, 1, 0}
                       : race::Footprint{begin + z * slice, r.width, r.height, pitch},
               write);
  }
}

const char* name_of(Side to, Side from) {
  if (to.place == Place::device) {
    if (from.place != Place::device) return "memcpy HtoD";
    return to.device == from.device ? "memcpy DtoD" : "memcpy PtoP";
  }
  return from.place == Place::device ? "memcpy DtoH" : "memcpy HtoH";
}

std::uint8_t memory_of(Side side) {
  if (side.place == Place::device) return Work::kDevice;
  return side.place == Place::pinned ? Work::kPinned : Work::kPageable;
}

Ns duration(const Profile& p, Side to, Side from, double bytes) {
  if (to.place == Place::device && from.place == Place::device) {
    if (to.device == from.device) return p.duration({.bytes = 2 * bytes});
    return p.links.nvlink_latency + p.transfer(bytes, p.links.nvlink_gbps);
  }
  return p.pcie_latency + p.transfer(bytes, p.pcie_gbps);
}

}  // namespace

cudaError_t copy(void* to, const void* from, const Rectangle& shape, cudaMemcpyKind kind,
                 StreamHandle stream, Waiting waiting) {
  if (shape.height > 1 && (shape.width > shape.to_pitch || shape.width > shape.from_pitch)) {
    return cudaErrorInvalidPitchValue;
  }
  const std::size_t bytes = shape.width * shape.height * shape.depth;
  if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  settle_if_deferring(stream);
  if (!to || !from) return cudaErrorInvalidValue;
  Side target, source;
  if (!locate(to, extent(shape, shape.to_pitch, shape.to_slice), target) ||
      !locate(from, extent(shape, shape.from_pitch, shape.from_slice), source) ||
      !direction_fits(kind, target, source)) {
    return cudaErrorInvalidValue;
  }
  const bool on_host = target.place != Place::device && source.place != Place::device;
  const bool to_host = target.place != Place::device && !on_host;
  const bool from_host = source.place != Place::device && !on_host;
  const bool pageable = target.place == Place::pageable || source.place == Place::pageable;
  if (from_host) note_upload(to);
  if (source.place == Place::device) note_read(from);
  const std::int64_t* const known = answer_to_reads(bytes);
  if (to_host && take_refusal()) return cudaErrorNotSupported;  // its results would be read
  const bool follows = follows_known();
  const bool all_known = to_host && follows && rows_known(to, from, shape);
  if (to_host && !data_moves() && !all_known && !known && !accepts_unknown())
    return refuse_read(bytes);

  // Effect of the copy on data, also at each launch of a graph.
  const auto act = [=, moves = on_host || data_moves()] {
    if (moves || (to_host && follows && rows_known(to, from, shape))) {
      move(to, from, shape);
    } else if (!to_host && follows) {
      move_known(to, from, shape, from_host);
    } else if (to_host) {
      leave_no_value(to, from, shape, target.place == Place::pinned);
    }
    return cudaSuccess;
  };

  const Work work{.type = Work::Type::copy,
                  .from = memory_of(source),
                  .to = memory_of(target),
                  .between_devices = source.place == Place::device &&
                                     target.place == Place::device &&
                                     source.device != target.device,
                  .bytes = bytes};
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->capture) {
    if (waiting == Waiting::sync) return unsafe_in_capture(s);
    pay_launch(e);
    const double moved = static_cast<double>(bytes);
    const cudaError_t error = capture(*s, {.type = cudaGraphNodeTypeMemcpy,
                                           .name = name_of(target, source),
                                           .duration = duration(e.profile, target, source, moved),
                                           .effects = {act},
                                           .work = work});
    if (!on_host) charge_in_bracket(*s, 2 * moved, false);
    return error;
  }
  if (const cudaError_t error = implicit_in_capture(*s)) return error;
  // Pageable memory is staged: a synchronous upload waits for the stream before it begins.
  if (waiting == Waiting::sync && from_host && pageable) synchronise_with(lock, e.mark(*s));
  pay_launch(e);
  const char* name = name_of(target, source);
  e.append(*s, duration(e.profile, target, source, static_cast<double>(bytes)), name, Kind::copy,
           work);
  note_access(*s, name, source, from, shape, shape.from_pitch, shape.from_slice, false);
  note_access(*s, name, target, to, shape, shape.to_pitch, shape.to_slice, true);
  if (!on_host) charge_in_bracket(*s, 2.0 * static_cast<double>(bytes), false);
  const bool wait = on_host || (to_host && (pageable || waiting == Waiting::sync)) ||
                    (from_host && !pageable && waiting == Waiting::sync);
  if (wait) synchronise_with(lock, e.mark(*s));
  lock.unlock();

  if (to_host && known && !all_known && !data_moves()) {
    std::memset(to, 0, bytes);
    std::memcpy(to, known, std::min(bytes, sizeof *known));  // the low bytes come first
    return cudaSuccess;
  }
  return act();
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 StreamHandle stream, Waiting waiting) {
  return copy(to, from, Rectangle{.width = bytes}, kind, stream, waiting);
}

cudaError_t fill(void* to, unsigned value, std::size_t unit, const Rectangle& shape,
                 StreamHandle stream, Waiting waiting) {
  const std::size_t bytes = shape.width * shape.height * shape.depth;
  if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  Side target;
  if (!to || !locate(to, extent(shape, shape.to_pitch, shape.to_slice), target) ||
      target.place == Place::pageable) {
    return cudaErrorInvalidValue;
  }
  if (reinterpret_cast<std::uintptr_t>(to) % unit) return cudaErrorInvalidValue;
  const bool keeps = target.place == Place::device && follows_known();
  const bool writes =
      target.place == Place::pinned || data_moves() || (keeps && bytes <= known_limit());
  const auto act = [=] {
    if (keeps) mark_rows(to, shape, writes);
    if (writes) write_rows(to, value, unit, shape);
    return cudaSuccess;
  };

  const Work work{
      .type = Work::Type::fill, .to = memory_of(target), .value = value, .bytes = bytes};
  auto [e, lock, s] = locked(stream);
  const Ns lasts = e.profile.duration({.bytes = static_cast<double>(bytes)});
  if (!s->capture)
    if (const cudaError_t error = implicit_in_capture(*s)) return error;
  pay_launch(e);
  if (s->capture) {
    const cudaError_t error = capture(*s, {.type = cudaGraphNodeTypeMemset,
                                           .name = "memset",
                                           .duration = lasts,
                                           .effects = {act},
                                           .work = work});
    charge_in_bracket(*s, static_cast<double>(bytes), false);
    return error;
  }
  e.append(*s, lasts, "memset", Kind::copy, work);
  note_access(*s, "memset", target, to, shape, shape.to_pitch, shape.to_slice, true);
  charge_in_bracket(*s, static_cast<double>(bytes), false);
  // Device memory: asynchronous in both forms.
  if (waiting == Waiting::sync && target.place == Place::pinned) synchronise_with(lock, e.mark(*s));
  lock.unlock();
  return act();
}

}  // namespace tidemark::device
