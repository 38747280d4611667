#include "harness/virtual/device/race_detector.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_set>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/names.h"
#include "harness/virtual/race/blocks.h"
#include "harness/virtual/race/control.h"
#include "harness/virtual/race/findings.h"
#include "harness/virtual/race/labels.h"
#include "harness/virtual/race/shadow.h"

namespace tidemark::race {
namespace {

using device::engine;
using device::locked;
using device::Stream;
using device::VectorClock;

constexpr std::size_t kSweepFrom = 1 << 14;
constexpr std::uint32_t kHost = device::kHostLane;

struct Frame {
  int depth = 0;
  const char* name = "";
  std::uint64_t serial = 0;
  std::uint64_t latest_block = 0;      // when it began
  std::vector<std::uint32_t> touched;  // streams, each once, the last one last
};
thread_local Frame frame;
thread_local bool ignored = false;

std::atomic<std::uint64_t> operations{0};

struct Detector {
  Shadow shadow;
  VectorClock known;  // what any thread of the host has learned to be done, watchdogs aside
  Labels labels;
  Blocks blocks;
  Findings findings;
  std::size_t sweep_at = kSweepFrom, blocks_at = kSweepFrom;
  std::vector<Conflict> conflicts;  // reused
  std::vector<Footprint> pieces;

  void clear() {
    shadow.clear();
    labels.clear();
    findings.clear();
    sweep_at = kSweepFrom;
    blocks.clear();
  }

  static std::string name_of(std::uint32_t index) { return engine().name_of(index); }

  Side side(const Access& a) {
    return {labels.op(a.label),
            name_of(a.stream),
            labels.phase_of(a.label),
            labels.shape(a.label),
            a.write,
            a.stream,
            a.stream == kHost ? 0 : a.place};
  }

  static std::string where(const Side& s) {
    return s.op + " (" + s.stream + (s.phase.empty() ? "" : ", " + s.phase) + ")";
  }
  static std::string what(const Side& s, std::uint64_t bytes) {
    return where(s) + (s.write ? " writes " : " reads ") + std::to_string(bytes) + " bytes" +
           (s.shape.empty() ? "" : " of its " + s.shape);
  }
  std::string in_phase(std::uint32_t phase) const {
    return labels.word(phase).empty() ? "" : " in " + labels.word(phase);
  }
  std::string text_of(const Block& block) {
    return std::to_string(block.bytes) + " bytes, allocated on " + name_of(block.stream) +
           in_phase(block.allocated);
  }

  std::string explain(const Access& before, const Access& after, const Side& first,
                      const Side& second, std::uint64_t bytes) {
    std::string text =
        what(second, bytes) + " that " + where(first) + (first.write ? " writes" : " reads");
    if (!first.shape.empty()) text += " as " + first.shape;
    text += "; no stream order, event or host synchronisation puts one after the other";
    const Block* old_block = blocks.find(before.block);
    const Block* new_block = blocks.find(after.block);
    if (before.block == after.block || !old_block || !new_block) return text;
    return text + "; in between, the block of the first (" + text_of(*old_block) + ") was freed" +
           in_phase(old_block->freed) + " and its memory given to another (" + text_of(*new_block) +
           ")";
  }

  std::string explain_within(const Side& first, const Side& second, std::uint64_t bytes) {
    return what(second, bytes) + " that it also " + (first.write ? "writes" : "reads") +
           (first.shape.empty() ? "" : " as " + first.shape) +
           ", in memory of another storage: one of the two was freed while it was still in use";
  }

  void report(const Access& access, std::uint64_t operation) {
    for (const Conflict& c : conflicts) {
      const Side first = side(c.before), second = side(access);
      findings.add(first, second, c.within_operator ? "within" : "race", c.bytes, operation, [&] {
        return c.within_operator ? explain_within(first, second, c.bytes)
                                 : explain(c.before, access, first, second, c.bytes);
      });
    }
    conflicts.clear();
  }

  // The next owner of the freed memory does not know of this access; or it is this operator
  // itself that was given the memory of its argument.
  void check_alive(const Access& access, std::uint64_t operation) {
    const Block* block = blocks.find(access.block);
    const bool argument = access.storage && !access.write;
    const bool taken = block && argument && access.block > frame.latest_block;
    if (!block || (!block->is_freed && !taken)) return;
    const Side second = side(access);
    const Side first{"free", name_of(block->stream), labels.word(block->freed), "", true, kHost, 0};
    const std::size_t bytes = access.where.rows * access.where.width;
    findings.add(first, second, "freed", bytes, operation, [&] {
      const std::string text = what(second, bytes);
      return taken
                 ? text +
                       " that were freed before this was enqueued, and were given to this operator "
                       "itself (" +
                       text_of(*block) + ")"
                 : text + " of a block (" + text_of(*block) + ") that was freed" +
                       in_phase(block->freed) +
                       " before this was enqueued: the next owner of that memory may overwrite it";
    });
  }

  void record(Access access, const Stream& s, std::uint64_t operation) {
    access.stream = s.index;
    access.place = s.count;
    access.block = blocks.at(access.where.begin);
    check_alive(access, operation);
    shadow.record(access, {s.clock, known}, conflicts);
    report(access, operation);
    if (shadow.size() > sweep_at) sweep();
  }

  void sweep() {
    shadow.forget(known);
    sweep_at = std::max(kSweepFrom, 2 * shadow.size());
  }

  void sweep_blocks() {
    std::unordered_set<std::uint64_t> used;
    shadow.each([&](const Access& a) { used.insert(a.block); });
    blocks.keep(used);
    blocks_at = std::max(kSweepFrom, 2 * blocks.known());
  }
};

Detector& detector() { return device::immortal<Detector>(); }

const bool set_by_environment = [] {
  const char* value = std::getenv("TIDEMARK_RACES");
  on = value && (std::string_view(value) == "1" || std::string_view(value) == "on");
  return on.load();
}();

}  // namespace

void appended(std::uint32_t stream) {
  if (frame.depth == 0) return;
  auto& touched = frame.touched;
  if (!touched.empty() && touched.back() == stream) return;
  std::erase(touched, stream);
  touched.push_back(stream);
}

void note(const Stream& stream, std::string_view name, const Footprint& where, bool write) {
  if (where.width == 0 || where.rows == 0) return;
  Detector& d = detector();
  const bool inside = frame.depth > 0;
  Access access{.where = where, .write = write};
  access.label = d.labels.add(inside ? std::string_view(frame.name) : name, {});
  d.record(access, stream, inside ? frame.serial : ++operations);
}

std::string_view current_operator() { return frame.depth > 0 ? frame.name : ""; }

void host_learned(const VectorClock& done) {
  Detector& d = detector();
  d.known.merge(done);
  std::uint64_t all = 0;
  for (const auto& [stream, count] : d.known.entries()) all += count;
  if (all == engine().appended) d.shadow.clear();
}

void ignore_this_thread() { ignored = true; }

}  // namespace tidemark::race

using namespace tidemark::race;

void tidemark_races_detect(int wanted) {
  std::lock_guard lock(engine().mutex);
  if (wanted) {
    detector().clear();
    detector().known = engine().done;
    engine().forget_numbers();
  }
  on = wanted != 0;
}

int tidemark_races_detected(void) { return is_on(); }

void tidemark_races_phase(const char* name) {
  std::lock_guard lock(engine().mutex);
  detector().labels.set_phase(name ? name : "");
}

void tidemark_races_begin_operator(const char* name) {
  if (frame.depth++ > 0) return;
  frame.name = name ? name : "";
  frame.touched.clear();
  frame.serial = ++operations;
  frame.latest_block = detector().blocks.latest();
}

void tidemark_races_end_operator(const tidemark_access* accesses, size_t count) {
  if (frame.depth == 0 || --frame.depth > 0 || !is_on() || ignored || frame.touched.empty()) return;
  auto [e, lock] = locked();
  Detector& d = detector();
  // Reads of the operator come first: its own writes would hide the writer of the data it reads.
  for (const bool write : {false, true}) {
    for (const tidemark_access& a : std::span(accesses, count)) {
      if ((a.write != 0) != write) continue;
      const auto used =
          std::find_if(frame.touched.rbegin(), frame.touched.rend(),
                       [&](std::uint32_t s) { return e.streams[s].device == a.device; });
      if (used == frame.touched.rend()) continue;
      Access access{.storage = a.storage, .write = write};
      access.label = d.labels.add(frame.name, {a.type, a.sizes, a.dims});
      d.pieces.clear();
      append_footprints(d.pieces, reinterpret_cast<std::uintptr_t>(a.address), a.element, a.sizes,
                        a.strides, a.dims);
      for (const Footprint& piece : d.pieces) {
        access.where = piece;
        d.record(access, e.streams[*used], frame.serial);
      }
    }
  }
}

void tidemark_races_host_access(const char* name, const void* address, uint64_t bytes, int write) {
  if (!is_on() || ignored || bytes == 0) return;
  auto [e, lock] = locked();
  Detector& d = detector();
  Access access{.where = {reinterpret_cast<std::uintptr_t>(address), bytes, 1, 0},
                .write = write != 0};
  access.stream = kHost;
  access.label = d.labels.add(name ? name : "", {});
  static const VectorClock nothing;
  d.shadow.compare(access, {nothing, d.known}, d.conflicts);
  d.report(access, ++operations);
}

void tidemark_races_allocated(const void* address, uint64_t bytes, void* stream) {
  if (!is_on()) return;
  auto [e, lock] = locked();
  Detector& d = detector();
  const Stream* s = e.find(static_cast<tidemark::device::StreamHandle>(stream));
  d.blocks.allocate(reinterpret_cast<std::uintptr_t>(address), bytes, s ? s->index : 0,
                    d.labels.phase());
  if (d.blocks.known() > d.blocks_at) d.sweep_blocks();
}

void tidemark_races_freed(const void* address) {
  if (!is_on()) return;
  std::lock_guard lock(engine().mutex);
  detector().blocks.free(reinterpret_cast<std::uintptr_t>(address), detector().labels.phase());
}

void tidemark_races_returned(const void* address, uint64_t bytes) {
  if (!is_on()) return;
  std::lock_guard lock(engine().mutex);
  detector().blocks.forget(reinterpret_cast<std::uintptr_t>(address), bytes);
}

size_t tidemark_races_read(char* text, size_t size) {
  std::lock_guard lock(engine().mutex);
  const auto access = [](const Side& s) {
    return nlohmann::ordered_json{{"op", s.op}, {"stream", s.stream}};
  };
  const auto last = [](const Side& s) { return nlohmann::ordered_json{s.lane, s.place}; };
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Finding& f : detector().findings.all()) {
    const std::string times = f.count > 1 ? " (" + std::to_string(f.count) + " times)" : "";
    all.push_back({{"first", access(f.first)},
                   {"second", access(f.second)},
                   {"kind", f.kind},
                   {"bytes", f.bytes},
                   {"count", f.count},
                   {"last", {last(f.first), last(f.second)}},
                   {"explanation", f.explanation + times}});
  }
  return tidemark::device::give_text(all.dump(), text, size);
}
