#include "harness/memory/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "harness/memory/annotations.h"
#include "harness/memory/format/format.h"
#include "harness/memory/own_lists.h"
#include "harness/memory/settings.h"
#include "harness/memory/site.h"
#include "harness/memory/snapshot.h"
#include "harness/memory/taken_events.h"
#include "harness/memory/tree_reader.h"
#include "harness/memory/unpickle.h"
#include "harness/record/string_table.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

using Id = Tree::Id;
using Type = Tree::Type;
constexpr std::int64_t kHuge = std::int64_t{1} << 44;  // bytes of one allocation or segment

/// What a snapshot says, of a tree: events while it grows, all else once it is whole. Messages name
/// the place.
class Decoder : public EventTaker, private TreeReader {
 public:
  Decoder() {
    modules_[""];
    stacks_.insert(0);
  }

  Snapshot run(std::string_view file, bool json) {
    (json ? tree_of_json : unpickle)(file, tree_, *this);
    const Id root = tree_.root;
    if (tree_[root].type == Type::list) {  // torch.cuda.memory_snapshot(): segments alone
      segments(root);
    } else {
      need(root, Type::dictionary);
      const auto segment_list = find(root, "segments");
      if (!segment_list) fail("has no 'segments'");
      segments(*segment_list);
      if (const auto traces = find(root, kTraces)) devices(*traces);
      if (const auto settings = find(root, "allocator_settings"))
        out_.settings = settings_in(tree_, *settings);
      if (const auto ranges = find(root, "external_annotations"))
        out_.annotations = annotations_of(tree_, *ranges);
      if (const auto host = find(root, "host_traces"))
        each(*host, "host_traces", Type::dictionary, [&](Id id) {
          if (const auto event = event_of(id)) out_.host.push_back(*event);
        });
      out_.labelled = find(root, "tidemark_labels").has_value();
      own_lists(out_, [&](const char* key, auto& list, const char* what, auto cells) {
        rows(root, key, list, what, cells);
      });
      for (std::size_t i = 0; i < out_.gathers.size(); ++i)
        if (const auto bytes = out_.gathers[i].shard_bytes; bytes < 0)
          fail(fmt::format("tidemark_gathers[{}]: a shard of {} bytes", i, bytes));
      std::ranges::stable_sort(out_.labels, {}, &TensorLabel::allocations);
      std::ranges::stable_sort(out_.holders, {}, &HolderLabel::allocations);
      std::ranges::stable_sort(out_.uses, {}, &UseLabel::allocations);
      std::ranges::stable_sort(out_.gathers, {}, &Gather::allocations);
      std::ranges::stable_sort(out_.computed, {}, &Computed::allocations);
      out_.failure = text(root, "tidemark_failure", "");
    }
    out_.modules = modules_.all();
    return std::move(out_);
  }

  bool take(Id list, std::size_t place, std::span<const Id> items) override {
    if (tree_[list].size > 0) return false;  // some of its items were not for here
    const auto [known, fresh] = trace_of_.try_emplace(list, taken_.size());
    if (fresh) taken_.emplace_back();
    TakenEvents& trace = taken_[known->second];
    places_.assign({{kTraces.data(), place}, {"", {}}});
    for (const Id id : items) {
      places_.back().item = trace.items++;
      if (tree_[id].type == Type::event) {  // it is in a trace already
        if (const std::int64_t earlier = tree_[id].integer; earlier >= 0)
          trace.add(AllocatorEvent(event_at(earlier)));
        continue;
      }
      need(id, Type::dictionary);
      const auto event = event_of(id);
      if (event) trace.add(*event);
      tree_.become(id, Type::event,
                   event ? static_cast<std::int64_t>(std::uint64_t{known->second} << kIndexBits |
                                                     (trace.size() - 1))
                         : -1);
      tree_.release(id);
    }
    places_.clear();
    return true;
  }

  bool take_blocks(Id list, std::span<const Id> items) override {
    if (tree_[list].size > 0) return false;  // some of its items were not for here
    if (!std::ranges::all_of(items, [&](Id id) { return is_plain_block(id); })) return false;
    const auto [known, fresh] = blocks_of_.try_emplace(list, blocks_.size());
    if (fresh) blocks_.emplace_back();
    auto& all = blocks_[known->second];
    for (const Id id : items) {
      all.push_back(block_of(id, 0));
      if (tree_[id].type == Type::block) continue;
      tree_.become(
          id, Type::block,
          static_cast<std::int64_t>(std::uint64_t{known->second} << kIndexBits | (all.size() - 1)));
      tree_.release(id);
    }
    return true;
  }

 private:
  static constexpr unsigned kIndexBits = 32;  // of the place of an event or a block in its list

  const AllocatorEvent& event_at(std::int64_t place) const {
    const auto at = static_cast<std::uint64_t>(place);
    return taken_[at >> kIndexBits].at(at & UINT32_MAX);
  }

  std::uint32_t frame(Id id) {
    if (tree_[id].type == Type::frame) return static_cast<std::uint32_t>(tree_[id].integer);
    need(id, Type::dictionary);
    StackFrame one{text(id, "name", ""), text(id, "filename", ""), integer(id, "line", 0)};
    const auto [at, fresh] = frames_.emplace(std::tuple(one.function, one.file, one.line),
                                             static_cast<std::uint32_t>(out_.frames.size()));
    if (fresh) add_frame(out_, std::move(one));
    tree_.become(id, Type::frame, at->second);
    return at->second;
  }

  /// Equal stacks are one, whether the file shares them or not.
  std::uint32_t stack(Id dictionary) {
    const auto list = find(dictionary, "frames");
    if (!list || tree_[*list].type == Type::none) return 0;
    if (tree_[*list].type == Type::stack) return static_cast<std::uint32_t>(tree_[*list].integer);
    need(*list, Type::list);
    const auto items = tree_.items(*list);
    if (items.size() > recorder::kFrames) fail(fmt::format("a stack of {} frames", items.size()));
    std::vector<std::uint32_t> frames;
    frames.reserve(items.size());
    for (Id id : items) frames.push_back(frame(id));
    out_.stacks.push_back(std::move(frames));
    const auto [known, fresh] = stacks_.insert(static_cast<std::uint32_t>(out_.stacks.size() - 1));
    if (!fresh) out_.stacks.pop_back();
    tree_.become(*list, Type::stack, *known);
    return *known;
  }

  std::optional<BlockState> known_state(Id block) const {
    const std::string name = text(block, "state", "");
    if (name == "active_allocated") return BlockState::allocated;
    if (name == "active_pending_free" || name == "active_awaiting_free")
      return BlockState::pending_free;
    if (name == "inactive") return BlockState::inactive;
    return std::nullopt;
  }
  BlockState state(Id block) const {
    const auto known = known_state(block);
    if (!known) fail(fmt::format("'{}' is not a state of a block", text(block, "state", "")));
    return *known;
  }

  /// The entry in which PyTorch 2.0 keeps a block's frames and requested size; else the block
  /// itself.
  Id last_owner(Id block) const {
    const auto history = find(block, "history");
    if (find(block, "frames") || !history || tree_[*history].type != Type::list) return block;
    const auto owners = tree_.items(*history);
    return owners.empty() || tree_[owners[0]].type != Type::dictionary ? block : owners[0];
  }

  /// As PyTorch 2.1 and later write it, whatever its values. Others stay in the tree.
  bool is_plain_block(Id id) const {
    if (tree_[id].type == Type::block) return true;
    if (tree_[id].type != Type::dictionary) return false;
    for (const char* key : {"size", "address", "requested_size"}) {
      const auto value = find(id, key);
      if (!value || tree_[*value].type != Type::integer) return false;
    }
    const auto frames = find(id, "frames");
    return frames && is_plain_stack(*frames) && known_state(id).has_value();
  }
  bool is_plain_stack(Id list) const {
    if (tree_[list].type == Type::none || tree_[list].type == Type::stack) return true;
    if (tree_[list].type != Type::list || tree_[list].size > recorder::kFrames) return false;
    return std::ranges::all_of(tree_.items(list), [&](Id id) {
      if (tree_[id].type != Type::dictionary) return tree_[id].type == Type::frame;
      const auto line = find(id, "line");
      return !line || tree_[*line].type == Type::integer;
    });
  }

  const MemoryBlock& block_at(std::int64_t place) const {
    const auto at = static_cast<std::uint64_t>(place);
    return blocks_[at >> kIndexBits][at & UINT32_MAX];
  }

  /// `at`: where the block before it ends.
  MemoryBlock block_of(Id id, std::int64_t at) {
    if (tree_[id].type == Type::block) return block_at(tree_[id].integer);
    need(id, Type::dictionary);
    MemoryBlock block;
    block.size = integer(id, "size", std::nullopt);
    block.address = integer(id, "address", at);  // older snapshots leave it out
    const Id latest = last_owner(id);
    block.requested = integer(id, "requested_size", integer(latest, "real_size", block.size));
    block.state = state(id);
    block.stack = stack(latest);
    return block;
  }

  void blocks(Id list, Segment& segment) {
    need(list, Type::list);
    std::int64_t at = segment.address;
    const auto add = [&](MemoryBlock block) {
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
    };
    const auto taken = blocks_of_.find(list);
    const std::size_t early = taken == blocks_of_.end() ? 0 : blocks_[taken->second].size();
    const auto items = tree_.items(list);
    segment.blocks.reserve(early + items.size());
    places_.push_back({".blocks", {}});
    for (std::size_t i = 0; i < early + items.size(); ++i) {
      places_.back().item = i;
      add(i < early ? blocks_[taken->second][i] : block_of(items[i - early], at));
    }
    places_.pop_back();
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
    each(list, kTraces.data(), Type::list, [&](Id events) {
      auto& trace = out_.traces.emplace_back();
      if (const auto taken = trace_of_.find(events); taken != trace_of_.end())
        move(taken_[taken->second], out_.traces.size() - 1);
      trace.reserve(trace.size() + tree_.items(events).size());
      each(events, "", Type::dictionary, [&](Id id) {
        if (const auto event = event_of(id)) trace.push_back(*event);
      });
    });
  }
  /// A list may stand at several places.
  void move(TakenEvents& taken, std::size_t device) {
    auto& trace = out_.traces[device];
    if (taken.moved_to) {
      trace = out_.traces[*taken.moved_to];
      return;
    }
    trace.reserve(taken.size());
    for (; !taken.parts.empty(); taken.parts.pop_front())
      trace.insert(trace.end(), taken.parts.front().begin(), taken.parts.front().end());
    taken.moved_to = device;
  }

  /// None for actions that later PyTorch knows (workspace_snapshot): they move no memory.
  std::optional<AllocatorEvent> event_of(Id id) {
    const auto what = action_named(text(id, "action", ""));
    if (!what) return std::nullopt;
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
    return event;
  }

  void cell(Id id, std::int64_t& value, bool& right) const {
    right &= tree_[id].type == Type::integer;
    value = tree_[id].integer;
  }
  void cell(Id id, std::string& value, bool& right) const {
    right &= tree_[id].type == Type::text;
    if (right) value = tree_.text_of(id);
  }
  void cell(Id id, MemoryKind& value, bool& right) const { word(id, value, right, memory_kind); }
  void cell(Id id, HolderKind& value, bool& right) const { word(id, value, right, holder_kind); }
  void cell(Id id, BlockUse& value, bool& right) const { word(id, value, right, block_use); }
  template <class Value>
  void word(Id id, Value& value, bool& right, auto named) const {
    std::string text;
    cell(id, text, right);
    if (!right) return;
    const auto known = named(text);
    if (!known) fail(unknown_kind(text));
    value = *known;
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

  std::deque<std::deque<MemoryBlock>> blocks_;     // taken
  std::unordered_map<Id, std::size_t> blocks_of_;  // of lists, in blocks_
  std::deque<TakenEvents> taken_;
  std::unordered_map<Id, std::size_t> trace_of_;  // of lists, in taken_
  Snapshot out_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::uint32_t> frames_;
  std::unordered_set<std::uint32_t, ByFrames, ByFrames> stacks_{8, ByFrames{&out_.stacks},
                                                                ByFrames{&out_.stacks}};
  StringTable modules_;
};

}  // namespace

Snapshot decoded(std::string_view bytes, bool json) { return Decoder().run(bytes, json); }

}  // namespace tidemark
