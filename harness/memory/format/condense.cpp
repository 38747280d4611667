#include "harness/memory/format/condense.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "harness/memory/format/entry.h"
#include "harness/memory/format/names.h"

namespace tidemark::recorder {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// Which entries stay.
class Choice {
 public:
  explicit Choice(std::string_view entries) {
    EntryReader walk(entries);
    for (; walk.next(); ++number_) {
      of_.push_back(kNone);
      dropped_.push_back(false);
      take(walk.entry(), walk.place());
    }
  }
  bool stays(std::size_t entry) const {
    return !dropped_[entry] && (of_[entry] == kNone || !dropped_[of_[entry]]);
  }
  const SkippedCount& skipped() const { return skipped_; }

 private:
  struct Live {
    std::uint32_t made, free_requested = kNone;
    std::uint64_t bytes = 0;
  };
  using Places = std::map<std::int64_t, Live>;  // by address

  void take(const Entry& entry, std::size_t end) {
    switch (entry.tag) {
      case Tag::skipped:
        drop(number_);
        add(entry.skipped);
        condensed_until_ = end + entry.size;
        return;
      case Tag::step:
        drop(number_);  // written before the first entry of it that stays
        events_.push_back(0);
        if (end > condensed_until_) add({entry.number, entry.number, 1, 0});
        return;
      case Tag::repeats: {
        drop(number_);
        const std::size_t period = std::min<std::size_t>(entry.number, events_.size());
        skipped_.steps += period * entry.count;
        for (std::size_t i = events_.size() - period; i < events_.size(); ++i)
          skipped_.events += events_[i] * entry.count;
        return;
      }
      case Tag::event:
        if (!events_.empty()) ++events_.back();
        return event(entry);
      case Tag::block:
        if (const auto last = last_.find(entry.device); last != last_.end())
          of_.back() = last->second;
        return;
      case Tag::label:
      case Tag::gather:
        return belongs(entry.addresses.front());
      case Tag::computed:  // of blocks from before the stretch it stays
        belongs(entry.addresses.back());
        return belongs(entry.addresses.front());
      case Tag::pool:
        if (const auto segment = segments_[entry.device].find(entry.addresses.front());
            segment != segments_[entry.device].end())
          of_.back() = segment->second.made;
        return;
      case Tag::use:
        return use(entry);
      case Tag::phase:
        open_[entry.name].push_back(number_);
        return;
      case Tag::phase_end:
        if (auto& open = open_[entry.name]; !open.empty()) {
          drop(open.back()), drop(number_);
          open.pop_back();
        }
        return;
      default:
        return;  // a definition
    }
  }
  void add(const SkippedCount& more) {
    if (skipped_.steps == 0) skipped_.first = more.first;
    skipped_.last = more.last;
    skipped_.steps += more.steps;
    skipped_.events += more.events;
  }
  void drop(std::uint32_t entry) { dropped_[entry] = true; }
  void drop_event(std::uint32_t entry) {
    if (entry == kNone) return;
    drop(entry);
    ++skipped_.events;
  }

  // To the block that this stretch has allocated around the address, if it has.
  void belongs(std::int64_t address) {
    for (auto& [device, blocks] : blocks_) {
      const auto after = blocks.upper_bound(address);
      if (after == blocks.begin()) continue;
      const auto& [begin, live] = *std::prev(after);
      const auto bytes = static_cast<std::int64_t>(std::max<std::uint64_t>(live.bytes, 1));
      if (address < begin + bytes) of_.back() = live.made;
    }
  }

  // Of the reads of a block the last one says all that is asked of steps before.
  void use(const Entry& entry) {
    if (entry.number == static_cast<std::uint64_t>(BlockUse::followed)) return;
    belongs(entry.addresses.front());
    if (entry.number != static_cast<std::uint64_t>(BlockUse::read)) return;
    const auto [last, fresh] = reads_.try_emplace(entry.addresses.front(), number_);
    if (!fresh) drop(std::exchange(last->second, number_));
  }

  void event(const Entry& entry) {
    const std::int64_t address = entry.addresses.front();
    reads_.erase(address);
    switch (static_cast<AllocatorAction>(entry.action)) {
      case AllocatorAction::alloc:
        blocks_[entry.device][address] = {number_, kNone, entry.size};
        last_[entry.device] = number_;
        return;
      case AllocatorAction::free_requested:
        if (const auto live = blocks_[entry.device].find(address);
            live != blocks_[entry.device].end())
          live->second.free_requested = number_;
        return;
      case AllocatorAction::free_completed:
        return ends(blocks_[entry.device], address);
      case AllocatorAction::segment_alloc:
      case AllocatorAction::segment_map:
        segments_[entry.device][address] = {number_, kNone, entry.size};
        return;
      case AllocatorAction::segment_free:
      case AllocatorAction::segment_unmap: {
        Places& segments = segments_[entry.device];
        if (const auto same = segments.find(address);
            same != segments.end() && same->second.bytes == entry.size)
          return ends(segments, address);
        // Parts of what was mapped: both stay.
        const auto end = address + static_cast<std::int64_t>(entry.size);
        std::erase_if(segments, [&](const auto& one) {
          return one.first < end &&
                 address < one.first + static_cast<std::int64_t>(one.second.bytes);
        });
        return;
      }
      default:
        return;  // out of memory
    }
  }
  void ends(Places& places, std::int64_t address) {
    const auto live = places.find(address);
    if (live == places.end()) return;
    drop_event(live->second.made), drop_event(live->second.free_requested), drop_event(number_);
    places.erase(live);
  }

  std::uint32_t number_ = 0;  // of the entry
  std::vector<std::uint32_t> of_;
  std::vector<bool> dropped_;
  SkippedCount skipped_;
  std::size_t condensed_until_ = 0;    // the end of the steps that were condensed before
  std::vector<std::uint64_t> events_;  // of each step
  std::map<std::uint64_t, Places> blocks_, segments_;         // by device
  std::map<std::uint64_t, std::uint32_t> last_;               // allocation of each device
  std::map<std::int64_t, std::uint32_t> reads_;               // the last one, by address
  std::map<std::uint64_t, std::vector<std::uint32_t>> open_;  // phases, by name
};

}  // namespace

std::string condensed(std::string_view entries) {
  const Choice choice(entries);
  std::string out;
  std::string_view step;  // that begins, and is not written yet
  std::int64_t step_time = 0, address = 0, time = 0;
  EntryReader walk(entries);
  for (std::size_t number = 0; walk.next(); ++number) {
    const Entry& entry = walk.entry();
    if (entry.tag == Tag::step) step = entry.head, step_time = entry.time;
    if (!choice.stays(number)) continue;
    if (!entry.defines && !step.empty()) {
      out += step;
      step = {};
      address = 0, time = step_time;
    }
    out += entry.head;
    for (std::size_t i = 0; i < entry.addressed; ++i) {
      put_signed(out, entry.addresses[i] - address);
      address = entry.addresses[i];
    }
    out += entry.tail;
    if (entry.timed) put_signed(out, entry.time - time), time = entry.time;
  }
  const SkippedCount& skipped = choice.skipped();
  std::string begin(1, static_cast<char>(Tag::skipped));
  for (const std::uint64_t part :
       {skipped.first, skipped.last, skipped.steps, skipped.events, std::uint64_t{out.size()}})
    put(begin, part);
  return begin + out;
}

}  // namespace tidemark::recorder
