#include <fmt/format.h>

#include <unordered_map>

#include "reports/snapshot/snapshot.h"

namespace tidemark {
namespace {

constexpr std::size_t kBatch = 1000;  // as Python's own pickle; viewers fail on longer ones

class Pickler {
 public:
  explicit Pickler(int protocol) : protocol_(protocol) {
    byte(0x80), byte(static_cast<unsigned>(protocol));
  }

  std::string take() {
    byte('.');
    return std::move(out_);
  }

  void text(const std::string& value) {
    const auto [at, fresh] = texts_.emplace(value, memo_);
    if (!fresh) return get(at->second);
    if (protocol_ >= 4 && value.size() < 256) {
      byte(0x8c), byte(static_cast<unsigned>(value.size()));
    } else {
      byte('X'), little(value.size(), 4);
    }
    out_ += value;
    put();
  }

  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      byte('K'), byte(static_cast<unsigned>(value));
    } else if (value >= 0 && value < 65536) {
      byte('M'), little(static_cast<std::uint64_t>(value), 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      byte('J'), little(static_cast<std::uint64_t>(value), 4);
    } else {
      address(value);
    }
  }

  /// LONG1, whatever the size: two's complement, as few bytes as hold the sign.
  void address(std::int64_t value) {
    std::string raw;
    for (std::int64_t rest = value; value != 0; rest >>= 8) {
      raw += static_cast<char>(rest & 0xff);
      const bool negative = (rest & 0x80) != 0;
      if ((rest >> 8 == 0 && !negative) || (rest >> 8 == -1 && negative)) break;
    }
    byte(0x8a), byte(static_cast<unsigned>(raw.size()));
    out_ += raw;
  }

  void boolean(bool value) { byte(value ? 0x88 : 0x89); }

  template <class Items, class Each>
  void list(const Items& items, Each each) {
    byte(']');
    for (std::size_t from = 0; from < items.size(); from += kBatch) {
      byte('(');
      for (std::size_t i = from; i < std::min(from + kBatch, items.size()); ++i) each(items[i]);
      byte('e');
    }
  }

  /// In between, key and value in turn.
  void begin_dictionary() { byte('}'), byte('('); }
  void end_dictionary() { byte('u'); }
  void key(const char* name) { text(name); }
  void tuple_of_two() { byte(0x86); }
  void empty_tuple_or_list() { byte(']'); }

  /// The value just written can be had again.
  std::uint32_t put() {
    if (protocol_ >= 4) {
      byte(0x94);
    } else if (memo_ < 256) {
      byte('q'), byte(memo_);
    } else {
      byte('r'), little(memo_, 4);
    }
    return memo_++;
  }
  void get(std::uint32_t at) {
    if (at < 256) {
      byte('h'), byte(at);
    } else {
      byte('j'), little(at, 4);
    }
  }

 private:
  void byte(unsigned value) { out_ += static_cast<char>(value); }
  void little(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  int protocol_;
  std::string out_;
  std::uint32_t memo_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

class Writer {
 public:
  Writer(const Snapshot& snapshot, int protocol) : s_(snapshot), p_(protocol) {}

  std::string run() {
    p_.begin_dictionary();
    p_.key("segments");
    p_.list(s_.segments, [&](const SnapshotSegment& segment) { write(segment); });
    p_.key("device_traces");
    p_.list(s_.traces, [&](const auto& trace) {
      p_.list(trace, [&](const TraceEvent& event) { write(event); });
    });
    p_.key("allocator_settings");
    p_.begin_dictionary();
    for (const auto& [name, value] : s_.settings) p_.text(name), p_.text(value);
    p_.end_dictionary();
    p_.key("external_annotations");
    p_.empty_tuple_or_list();
    p_.end_dictionary();
    return p_.take();
  }

 private:
  void field(const char* name, std::int64_t value) { p_.key(name), p_.integer(value); }
  void field(const char* name, const std::string& value) { p_.key(name), p_.text(value); }
  void address(const char* name, std::int64_t value) { p_.key(name), p_.address(value); }

  /// Stacks and frames once each: a trace of a million events has a few hundred.
  void frames(std::uint32_t stack) {
    p_.key("frames");
    if (const auto known = stacks_.find(stack); known != stacks_.end())
      return p_.get(known->second);
    p_.list(s_.stacks[stack], [&](std::uint32_t frame) {
      if (const auto known = frames_.find(frame); known != frames_.end())
        return p_.get(known->second);
      const StackFrame& f = s_.frames[frame];
      p_.begin_dictionary();
      field("filename", f.file), field("line", f.line), field("name", f.function);
      p_.end_dictionary();
      frames_[frame] = p_.put();
    });
    stacks_[stack] = p_.put();
  }

  void write(const SnapshotSegment& segment) {
    std::int64_t allocated = 0, active = 0, requested = 0;
    for (const SnapshotBlock& b : segment.blocks) {
      if (b.state == BlockState::allocated) allocated += b.size;
      if (b.state != BlockState::inactive) active += b.size, requested += b.requested;
    }
    p_.begin_dictionary();
    field("device", segment.device), address("address", segment.address);
    field("total_size", segment.total_size), field("allocated_size", allocated);
    field("active_size", active), field("requested_size", requested);
    address("stream", segment.stream), field("segment_type", segment.type);
    p_.key("segment_pool_id"), p_.integer(segment.pool[0]), p_.integer(segment.pool[1]);
    p_.tuple_of_two();
    p_.key("is_expandable"), p_.boolean(segment.expandable);
    frames(segment.stack);
    p_.key("blocks");
    p_.list(segment.blocks, [&](const SnapshotBlock& block) {
      p_.begin_dictionary();
      address("address", block.address), field("size", block.size);
      field("requested_size", block.requested);
      field("state", std::string(name_of(block.state)));
      frames(block.stack);
      p_.end_dictionary();
    });
    p_.end_dictionary();
  }

  void write(const TraceEvent& event) {
    p_.begin_dictionary();
    field("action", std::string(name_of(event.action)));
    if (event.action == Action::oom) {
      field("device_free", event.device_free);
    } else {
      address("addr", event.address);
    }
    field("size", event.size), address("stream", event.stream), field("time_us", event.time_us);
    frames(event.stack);
    p_.end_dictionary();
  }

  const Snapshot& s_;
  Pickler p_;
  std::unordered_map<std::uint32_t, std::uint32_t> stacks_, frames_;
};

}  // namespace

std::string pickle(const Snapshot& snapshot, int protocol) {
  if (protocol < 2 || protocol > 4)
    throw SnapshotError(fmt::format("--protocol {}: is not one of 2, 3, 4", protocol));
  return Writer(snapshot, protocol).run();
}

}  // namespace tidemark
