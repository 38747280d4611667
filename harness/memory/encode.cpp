// A snapshot as a pickle and as JSON (newer viewers load it).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <variant>

#include "harness/memory/own_lists.h"
#include "harness/record/json.h"

namespace tidemark {
namespace {

constexpr std::size_t kBatch = 1000;  // as Python's own pickle; viewers fail on longer ones

class Pickler {
 public:
  Pickler(const Put& put, int protocol) : protocol_(protocol), out_(put) {
    byte(0x80), byte(static_cast<unsigned>(protocol));
  }

  void finish() {
    byte('.');
    out_.finish();
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

  void list(const auto& items, auto each) {
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
  void key(const std::string& name) { text(name); }
  void pair(const std::array<std::int64_t, 2>& pair) {
    integer(pair[0]), integer(pair[1]);
    byte(0x86);
  }
  /// Once each: a trace of a million events has a few hundred.
  void stack(std::uint32_t stack, auto write) { once(stacks_, stack, write); }
  void frame(std::uint32_t frame, auto write) { once(frames_, frame, write); }

 private:
  void once(std::unordered_map<std::uint32_t, std::uint32_t>& known, std::uint32_t id, auto write) {
    if (const auto place = known.find(id); place != known.end()) return get(place->second);
    write();
    known[id] = put();
  }
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
  void byte(unsigned value) { out_ += static_cast<char>(value); }
  void little(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  int protocol_;
  GrowingText out_;
  std::uint32_t memo_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::unordered_map<std::uint32_t, std::uint32_t> stacks_, frames_;
};

/// Compact, but with a line for each item of a list outside of stacks.
class JsonText {
 public:
  explicit JsonText(const Put& put) : out_(put) {}

  void finish() {
    add("\n");
    out_.finish();
  }

  void text(const std::string& value) { add(json_quoted(value)); }
  void integer(std::int64_t value) { add(fmt::format("{}", value)); }
  void address(std::int64_t value) { integer(value); }
  void boolean(bool value) { add(value ? "true" : "false"); }
  void pair(const std::array<std::int64_t, 2>& pair) {
    add(fmt::format("[{},{}]", pair[0], pair[1]));
  }
  void list(const auto& items, auto each) {
    add("[");
    const char* comma = "";
    for (const auto& item : items) {
      add(comma);
      if (!in_stack_) add("\n");
      each(item);
      comma = ",";
      limit_text(out_.size());
    }
    add("]");
  }
  void begin_dictionary() { add("{"), comma_ = ""; }
  void end_dictionary() { add("}"), comma_ = ","; }
  void key(const std::string& name) {
    add(comma_);
    text(name);
    add(":");
    comma_ = ",";
  }
  /// Stacks are written out wherever they are used, as the format wants it.
  void stack(std::uint32_t, auto write) {
    in_stack_ = true;
    write();
    in_stack_ = false;
  }
  void frame(std::uint32_t frame, auto write) {
    const auto [known, fresh] = frames_.try_emplace(frame);
    if (fresh) {
      frame_ = &known->second;
      write();
      frame_ = nullptr;
    }
    add(known->second);
  }

 private:
  void add(std::string_view text) {
    if (frame_ != nullptr)
      *frame_ += text;
    else
      out_ += text;
  }

  GrowingText out_;
  const char* comma_ = "";  // before the next key
  bool in_stack_ = false;
  std::string* frame_ = nullptr;  // that is written for the first time
  std::unordered_map<std::uint32_t, std::string> frames_;
};

/// A snapshot in the order of PyTorch's own files. `Out`: Pickler or JsonText.
template <class Out>
class Writer {
 public:
  Writer(const Snapshot& snapshot, Out out) : s_(snapshot), out_(std::move(out)) {}

  void run() {
    out_.begin_dictionary();
    out_.key("segments");
    out_.list(s_.segments, [&](const Segment& segment) { write(segment); });
    out_.key("device_traces");
    out_.list(s_.traces, [&](const auto& trace) {
      out_.list(trace, [&](const AllocatorEvent& event) { write(event); });
    });
    out_.key("allocator_settings");
    out_.begin_dictionary();
    for (const auto& [name, value] : s_.settings) out_.key(name), out_.text(value);
    out_.end_dictionary();
    out_.key("external_annotations");
    out_.list(std::vector<int>(), [](int) {});
    if (s_.labelled) write_own_lists();
    out_.end_dictionary();
    out_.finish();
  }

 private:
  void field(const char* name, std::int64_t value) { out_.key(name), out_.integer(value); }
  void field(const char* name, const std::string& value) { out_.key(name), out_.text(value); }
  void address(const char* name, std::int64_t value) { out_.key(name), out_.address(value); }

  void frames(std::uint32_t stack) {
    out_.key("frames");
    out_.stack(stack, [&] {
      out_.list(s_.stacks[stack], [&](std::uint32_t frame) {
        out_.frame(frame, [&] {
          const StackFrame& f = s_.frames[frame];
          out_.begin_dictionary();
          field("filename", f.file), field("line", f.line), field("name", f.function);
          out_.end_dictionary();
        });
      });
    });
  }

  void write(const Segment& segment) {
    std::int64_t allocated = 0, active = 0, requested = 0;
    for (const MemoryBlock& b : segment.blocks) {
      if (b.state == BlockState::allocated) allocated += b.size;
      if (b.state != BlockState::inactive) active += b.size, requested += b.requested;
    }
    out_.begin_dictionary();
    field("device", segment.device), address("address", segment.address);
    field("total_size", segment.total_size), field("allocated_size", allocated);
    field("active_size", active), field("requested_size", requested);
    address("stream", segment.stream), field("segment_type", segment.type);
    out_.key("segment_pool_id"), out_.pair(segment.pool);
    out_.key("is_expandable"), out_.boolean(segment.expandable);
    frames(segment.stack);
    out_.key("blocks");
    out_.list(segment.blocks, [&](const MemoryBlock& block) {
      out_.begin_dictionary();
      address("address", block.address), field("size", block.size);
      field("requested_size", block.requested);
      field("state", std::string(name_of(block.state)));
      frames(block.stack);
      out_.end_dictionary();
    });
    out_.end_dictionary();
  }

  void write(const AllocatorEvent& event) {
    out_.begin_dictionary();
    field("action", std::string(name_of(event.action)));
    if (event.action == AllocatorAction::oom) {
      field("device_free", event.address);
    } else {
      address("addr", event.address);
    }
    field("size", event.size), address("stream", event.stream), field("time_us", event.time / 1000);
    frames(event.stack);
    if (event.module != 0) field("user_metadata", s_.modules[event.module]);
    out_.end_dictionary();
  }

  /// A row of numbers and texts.
  using Cell = std::variant<std::int64_t, std::string>;
  template <class T>
  static Cell cell(const T& value) {
    if constexpr (std::is_enum_v<T>)
      return std::string(name_of(value));
    else
      return value;
  }
  template <class... Cells>
  void row(const Cells&... cells) {
    out_.list(std::vector<Cell>{cell(cells)...}, [&](const Cell& cell) {
      if (const auto* text = std::get_if<std::string>(&cell)) return out_.text(*text);
      out_.integer(std::get<std::int64_t>(cell));
    });
  }

  void write_own_lists() {
    own_lists(s_, [&](const char* key, const auto& list, const char*, auto cells) {
      out_.key(key);
      out_.list(list, [&](const auto& one) {
        cells(one, [&](const auto&... values) { row(values...); });
      });
    });
    out_.key("tidemark_failure"), out_.text(s_.failure);
  }

  const Snapshot& s_;
  Out out_;
};

}  // namespace

void write_pickle(const Snapshot& snapshot, const Put& put, int protocol) {
  if (protocol < 2 || protocol > 4)
    throw SnapshotError(fmt::format("--protocol {}: is not one of 2, 3, 4", protocol));
  Writer(snapshot, Pickler(put, protocol)).run();
}

std::string pickle(const Snapshot& snapshot, int protocol) {
  return whole([&](const Put& put) { write_pickle(snapshot, put, protocol); });
}

void write_json(const Snapshot& snapshot, const Put& put) { Writer(snapshot, JsonText(put)).run(); }

std::string snapshot_json(const Snapshot& snapshot) {
  return whole([&](const Put& put) { write_json(snapshot, put); });
}

}  // namespace tidemark
