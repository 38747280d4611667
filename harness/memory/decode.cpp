#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "harness/memory/own_lists.h"
#include "harness/memory/process_record.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/recording.h"
#include "harness/memory/site.h"
#include "harness/memory/snapshot.h"
#include "harness/memory/unpickle.h"
#include "harness/record/file.h"
#include "harness/record/gzip.h"
#include "harness/record/string_table.h"
#include "harness/record/units.h"
#include "harness/virtual/recorder/format.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Id = Tree::Id;
using Type = Tree::Type;
constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 30;
constexpr std::int64_t kHuge = std::int64_t{1} << 44;  // bytes of one allocation or segment

/// The tree, read as what a snapshot says. Messages name the place.
class Decoder {
 public:
  explicit Decoder(const Tree& tree) : tree_(tree) { modules_[""]; }

  Snapshot run() {
    const Id root = tree_.root;
    if (tree_[root].type == Type::list) {  // torch.cuda.memory_snapshot(): segments alone
      segments(root);
    } else {
      need(root, Type::dictionary);
      const auto segment_list = find(root, "segments");
      if (!segment_list) fail("has no 'segments'");
      segments(*segment_list);
      if (const auto traces = find(root, "device_traces")) devices(*traces);
      if (const auto settings = find(root, "allocator_settings")) settings_of(*settings);
      out_.labelled = find(root, "tidemark_labels").has_value();
      own_lists(out_, [&](const char* key, auto& list, const char* what, auto cells) {
        rows(root, key, list, what, cells);
      });
      for (std::size_t i = 0; i < out_.gathers.size(); ++i)
        if (const auto bytes = out_.gathers[i].shard_bytes; bytes < 0)
          fail(fmt::format("tidemark_gathers[{}]: a shard of {} bytes", i, bytes));
      std::ranges::stable_sort(out_.labels, {}, &TensorLabel::allocations);
      std::ranges::stable_sort(out_.holders, {}, &HolderLabel::allocations);
      std::ranges::stable_sort(out_.gathers, {}, &Gather::allocations);
      out_.failure = text(root, "tidemark_failure", "");
    }
    out_.modules = modules_.all();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    std::string place;
    for (const auto& [name, item] : places_)
      place += name + (item ? fmt::format("[{}]", *item) : "");
    throw SnapshotError((place.empty() ? "" : place + ": ") + one_line(what));
  }
  void need(Id id, Type type) const {
    if (tree_[id].type != type)
      fail(fmt::format("is {}, not {}", name_of(tree_[id].type), name_of(type)));
  }

  /// Calls `take` with each item of a list, all of the type. Messages name it `name`[2].
  void each(Id list, const char* name, Type type, const auto& take) {
    places_.push_back({name, {}});
    need(list, Type::list);
    const auto items = tree_.items(list);
    for (std::size_t i = 0; i < items.size(); ++i) {
      places_.back().item = i;
      need(items[i], type);
      take(items[i]);
    }
    places_.pop_back();
  }

  std::optional<Id> find(Id dictionary, std::string_view key) const {
    const auto items = tree_.items(dictionary);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (tree_[items[i]].type == Type::text && tree_.text_of(items[i]) == key) return items[i + 1];
    return std::nullopt;
  }
  std::int64_t integer(Id id, const char* key) const {
    if (tree_[id].type != Type::integer)
      fail(fmt::format("'{}' is {}, not an integer", key, name_of(tree_[id].type)));
    return tree_[id].integer;
  }
  std::int64_t integer(Id dictionary, const char* key,
                       std::optional<std::int64_t> otherwise) const {
    const auto value = find(dictionary, key);
    if (!value && otherwise) return *otherwise;
    if (!value) fail(fmt::format("has no '{}'", key));
    return integer(*value, key);
  }
  std::string text(Id dictionary, const char* key, const char* otherwise) const {
    const auto value = find(dictionary, key);
    if (!value || tree_[*value].type != Type::text) return otherwise;
    return std::string(tree_.text_of(*value));
  }

  std::uint32_t frame(Id id) {
    if (const auto known = frame_of_.find(id); known != frame_of_.end()) return known->second;
    need(id, Type::dictionary);
    StackFrame one{text(id, "name", ""), text(id, "filename", ""), integer(id, "line", 0)};
    const auto [at, fresh] = frames_.emplace(std::tuple(one.function, one.file, one.line),
                                             static_cast<std::uint32_t>(out_.frames.size()));
    if (fresh) add_frame(out_, std::move(one));
    return frame_of_[id] = at->second;
  }

  /// Equal stacks are one, whether the file shares them or not.
  std::uint32_t stack(Id dictionary) {
    const auto frame_list = find(dictionary, "frames");
    if (!frame_list || tree_[*frame_list].type == Type::none) return 0;
    if (const auto known = stack_of_.find(*frame_list); known != stack_of_.end())
      return known->second;
    need(*frame_list, Type::list);
    const auto items = tree_.items(*frame_list);
    if (items.size() > recorder::kFrames) fail(fmt::format("a stack of {} frames", items.size()));
    std::vector<std::uint32_t> frames;
    frames.reserve(items.size());
    for (Id id : items) frames.push_back(frame(id));
    if (frames.empty()) return 0;
    const auto [at, fresh] =
        stacks_.emplace(frames, static_cast<std::uint32_t>(out_.stacks.size()));
    if (fresh) out_.stacks.push_back(std::move(frames));
    return stack_of_[*frame_list] = at->second;
  }

  BlockState state(Id block) const {
    const std::string name = text(block, "state", "");
    if (name == "active_allocated") return BlockState::allocated;
    if (name == "active_pending_free" || name == "active_awaiting_free")
      return BlockState::pending_free;
    if (name == "inactive") return BlockState::inactive;
    fail(fmt::format("'{}' is not a state of a block", name));
  }

  /// The entry in which PyTorch 2.0 keeps a block's frames and requested size; else the block
  /// itself.
  Id last_owner(Id block) const {
    const auto history = find(block, "history");
    if (find(block, "frames") || !history || tree_[*history].type != Type::list) return block;
    const auto owners = tree_.items(*history);
    return owners.empty() || tree_[owners[0]].type != Type::dictionary ? block : owners[0];
  }

  void blocks(Id list, Segment& segment) {
    need(list, Type::list);
    std::int64_t at = segment.address;
    each(list, ".blocks", Type::dictionary, [&](Id id) {
      MemoryBlock block;
      block.size = integer(id, "size", std::nullopt);
      block.address = integer(id, "address", at);  // older snapshots leave it out
      const Id latest = last_owner(id);
      block.requested = integer(id, "requested_size", integer(latest, "real_size", block.size));
      block.state = state(id);
      block.stack = stack(latest);
      // A free block says what was requested of it last, when it may have been a larger one.
      if (block.state == BlockState::inactive)
        block.requested = std::min(block.requested, block.size);
      if (block.size < 0 || block.requested < 0 || block.requested > block.size)
        fail(fmt::format("requested {} bytes of {}", block.requested, block.size));
      if (block.address != at) fail("does not begin where the block before it ends");
      if (block.size > segment.total_size - (at - segment.address))
        fail("reaches beyond its segment");
      at += block.size;
      segment.blocks.push_back(block);
    });
    if (at != segment.address + segment.total_size)
      fail(fmt::format("its blocks sum to {} bytes, not to its total_size of {}",
                       at - segment.address, segment.total_size));
  }

  void segments(Id list) {
    each(list, "segments", Type::dictionary, [&](Id id) {
      Segment segment;
      segment.device = integer(id, "device", 0);
      segment.address = integer(id, "address", std::nullopt);
      segment.total_size = integer(id, "total_size", std::nullopt);
      segment.stream = integer(id, "stream", 0);
      segment.type = text(id, "segment_type", "large");
      if (const auto flag = find(id, "is_expandable"))
        segment.expandable = tree_[*flag].type == Type::boolean && tree_[*flag].integer != 0;
      if (const auto pool = find(id, "segment_pool_id");
          pool && tree_[*pool].type == Type::list && tree_.items(*pool).size() == 2)
        segment.pool = {integer(tree_.items(*pool)[0], "segment_pool_id"),
                        integer(tree_.items(*pool)[1], "segment_pool_id")};
      segment.stack = stack(id);
      if (segment.total_size < 0 || segment.address < 0 || segment.device < 0 ||
          segment.total_size > kHuge || segment.address > INT64_MAX - segment.total_size)
        fail("its device, address or total_size is out of range");
      const auto block_list = find(id, "blocks");
      if (!block_list) fail("has no 'blocks'");
      blocks(*block_list, segment);
      out_.segments.push_back(std::move(segment));
    });
  }

  void devices(Id list) {
    each(list, "device_traces", Type::list, [&](Id events) {
      auto& trace = out_.traces.emplace_back();
      trace.reserve(tree_.items(events).size());
      each(events, "", Type::dictionary, [&](Id id) {
        const auto what = action_named(text(id, "action", ""));
        if (!what)
          return;  // later PyTorch knows more actions (workspace_snapshot); they move no memory
        AllocatorEvent event;
        event.action = *what;
        event.size = integer(id, "size", 0);
        if (*what == AllocatorAction::oom) {
          event.address = integer(id, "device_free", 0);
        } else {
          event.address = integer(
              id, "addr",
              *what == AllocatorAction::snapshot ? std::optional<std::int64_t>(0) : std::nullopt);
        }
        event.stream = integer(id, "stream", 0);
        event.time = ns_of(integer(id, "time_us", 0));
        event.stack = stack(id);
        event.module = modules_[text(id, "user_metadata", "")];
        // Anything may have been asked for where it was refused.
        if (event.size < 0 || (event.size > kHuge && *what != AllocatorAction::oom))
          fail(fmt::format("a size of {} bytes", event.size));
        trace.push_back(event);
      });
    });
  }

  void cell(Id id, std::int64_t& value, bool& right) const {
    right &= tree_[id].type == Type::integer;
    value = tree_[id].integer;
  }
  void cell(Id id, std::string& value, bool& right) const {
    right &= tree_[id].type == Type::text;
    if (right) value = tree_.text_of(id);
  }
  void cell(Id id, MemoryKind& value, bool& right) const {
    std::string word;
    cell(id, word, right);
    if (!right) return;
    const auto kind = memory_kind(word);
    if (!kind) fail(unknown_kind(word));
    value = *kind;
  }
  void cell(Id id, HolderKind& value, bool& right) const {
    std::string word;
    cell(id, word, right);
    if (!right) return;
    const auto kind = holder_kind(word);
    if (!kind) fail(unknown_kind(word));
    value = *kind;
  }
  template <class Row>
  void rows(Id root, const char* key, std::vector<Row>& all, const char* what, auto cells) {
    const auto table = find(root, key);
    if (!table) return;
    each(*table, key, Type::list, [&](Id row) {
      const auto items = tree_.items(row);
      cells(all.emplace_back(), [&](auto&... values) {
        bool right = items.size() == sizeof...(values);
        std::size_t i = 0;
        if (right) (cell(items[i++], values, right), ...);
        if (!right) fail(fmt::format("is not {}", what));
      });
    });
  }

  void settings_of(Id dictionary) {
    if (tree_[dictionary].type != Type::dictionary) return;
    const auto items = tree_.items(dictionary);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (tree_[items[i]].type != Type::text) continue;
      const auto& value = tree_[items[i + 1]];
      std::string shown;
      if (value.type == Type::text) shown = tree_.text_of(items[i + 1]);
      if (value.type == Type::integer) shown = std::to_string(value.integer);
      if (value.type == Type::boolean) shown = value.integer != 0 ? "True" : "False";
      if (value.type == Type::real) shown = fmt::format("{}", value.real);
      if (value.type == Type::dictionary) shown = divisions(items[i + 1]);
      if (!shown.empty()) out_.settings.emplace_back(tree_.text_of(items[i]), shown);
    }
  }

  /// The value of roundup_power2_divisions, as in PYTORCH_CUDA_ALLOC_CONF: "[1:4,2:4]", by MiB.
  /// Empty where no size is divided.
  std::string divisions(Id dictionary) const {
    const auto items = tree_.items(dictionary);
    std::string out;
    bool any = false;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (tree_[items[i]].type != Type::text || tree_[items[i + 1]].type != Type::integer)
        return "";
      const std::int64_t value = tree_[items[i + 1]].integer;
      out += fmt::format("{}{}:{}", out.empty() ? "" : ",", tree_.text_of(items[i]), value);
      any |= value != 0;
    }
    return any ? "[" + out + "]" : "";
  }

  const Tree& tree_;
  Snapshot out_;
  /// A list and the item that is read. Put into words only where it is wrong.
  struct Place {
    const char* name;
    std::optional<std::size_t> item;
  };
  std::vector<Place> places_;  // from the outermost
  std::unordered_map<Id, std::uint32_t> frame_of_, stack_of_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::uint32_t> frames_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> stacks_;
  StringTable modules_;
};

}  // namespace

Snapshot parse_snapshot(std::string_view bytes, const std::string& where) {
  try {
    if (bytes.empty()) throw SnapshotError("is empty");
    std::optional<std::string> unpacked;
    if (bytes.starts_with("\x1f\x8b")) {
      unpacked = gunzip(bytes, kLargest);
      if (!unpacked) throw SnapshotError("is a damaged or cut off gzip file");
      if (unpacked->size() > kLargest)
        throw SnapshotError(fmt::format("unpacks to more than {} bytes", kLargest));
      bytes = *unpacked;
    }
    const auto first = bytes.find_first_not_of(" \t\r\n");
    const bool json =
        first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
    if (json && is_recording(bytes)) return recording(bytes);
    const Tree tree = json ? tree_of_json(bytes) : unpickle(bytes);
    return Decoder(tree).run();
  } catch (const SnapshotError& error) {
    throw SnapshotError(where + ": " + error.what());
  }
}

Snapshot read_snapshot(const fs::path& path) {
  std::string bytes;
  try {
    bytes = read_bytes(path, "a file of torch.cuda.memory._dump_snapshot()", kLargest);
  } catch (const std::runtime_error& error) {
    throw SnapshotError(error.what());
  }
  if (is_record(bytes)) return record_snapshot(path);
  return parse_snapshot(bytes, path.string());
}

}  // namespace tidemark
