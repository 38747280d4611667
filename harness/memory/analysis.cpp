#include "harness/memory/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "harness/memory/parts.h"
#include "harness/memory/phases.h"
#include "harness/memory/site.h"
#include "harness/memory/walk.h"
#include "harness/memory/wastes.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

constexpr const char* kBefore = "(before the trace began)";

void apply(const AllocatorEvent& e, Holdings& now, std::int64_t sign) {
  switch (e.action) {
    case AllocatorAction::alloc:
      now.allocated += sign * e.size, now.active += sign * e.size;
      break;
    case AllocatorAction::free_requested:
      now.allocated -= sign * e.size;
      break;
    case AllocatorAction::free_completed:
      now.active -= sign * e.size;
      break;
    case AllocatorAction::segment_alloc:
    case AllocatorAction::segment_map:
      now.reserved += sign * e.size;
      break;
    case AllocatorAction::segment_free:
    case AllocatorAction::segment_unmap:
      now.reserved -= sign * e.size;
      break;
    case AllocatorAction::snapshot:
    case AllocatorAction::oom:
      break;
  }
}

struct Live {
  std::uint32_t stack = 0;
  std::int64_t size = 0;
  const AllocatorEvent* made = nullptr;  // the allocation; null: before the trace began
};

class Analysis {
 public:
  Analysis(const Snapshot& snapshot, std::size_t device) : s_(snapshot) {
    out_.device = device;
    if (device < s_.traces.size()) trace_ = &s_.traces[device];
    if (is_ours(s_)) labels_ = labels_of(s_, device);
  }

  DeviceSummary run() {
    out_.events = trace_->size();
    for (const Segment& segment : s_.segments)
      if (static_cast<std::size_t>(segment.device) == out_.device) add(segment);
    std::ranges::stable_sort(at_end_, {}, &MemoryBlock::address);
    find_peak();
    replay();
    pending();
    out_.repeats = s_.repeats;
    for (const SkippedSteps& one : s_.skipped)
      if (static_cast<std::size_t>(one.device) == out_.device) out_.skipped.push_back(one);
    out_.phases = peaks_of(s_.phases, out_.device, *trace_, out_.begin, out_.curve);
    if (is_ours(s_) && !s_.kinds_by_stacks)
      out_.wastes = wastes_of(s_, out_.device, labels_, out_.peak_event);
    return std::move(out_);
  }

 private:
  void add(const Segment& segment) {
    Fragmentation& f = out_.fragmentation;
    ++f.segments;
    f.reserved += segment.total_size;
    out_.end.reserved += segment.total_size;
    std::int64_t free = 0;
    for (const MemoryBlock& b : segment.blocks) {
      if (b.state == BlockState::inactive) {
        free += b.size;
        ++f.fragments;
        f.largest_free = std::max(f.largest_free, b.size);
        continue;
      }
      out_.end.active += b.requested;
      f.requested += b.requested;
      if (b.state == BlockState::allocated) {
        f.allocated += b.size;
        out_.end.allocated += b.requested;
      } else {
        f.pending += b.size;
      }
      at_end_.push_back(&b);
    }
    (free == segment.total_size ? f.free_segments : f.free_in_used) += free;
    if (free == segment.total_size && !segment.blocks.empty()) --f.fragments;
    stream_of_[segment.address] = segment.stream;
  }

  /// The trace may have begun in the middle (it is a ring): from the end backwards to its begin.
  void find_peak() {
    Holdings now = out_.end;
    for (auto e = trace_->rbegin(); e != trace_->rend(); ++e) apply(*e, now, -1);
    out_.begin = out_.peak = now;
    out_.curve.reserve(trace_->size());
    for (std::size_t i = 0; i < trace_->size(); ++i) {
      const AllocatorEvent& e = (*trace_)[i];
      apply(e, now, 1);
      out_.curve.push_back(now);
      if (e.action == AllocatorAction::oom) {
        ++out_.ooms;
        out_.oom = {site_of(s_, e.stack), s_.modules[e.module], e.size, e.address, now};
        out_.oom->event = i;
      }
      if (now.active <= out_.peak.active) continue;
      out_.peak = now;
      out_.peak_event = i + 1;
    }
    if (out_.oom) tell(*out_.oom);
  }

  void tell(OutOfMemory& oom) const {
    const auto of_device = [&](const auto& one) {
      return static_cast<std::size_t>(one.device) == out_.device;
    };
    for (const RefusedRequest& one : s_.refused)
      if (of_device(one) && one.event == oom.event) oom.request = one;
    oom.pools = std::ranges::any_of(
        s_.segments, [&](const Segment& one) { return of_device(one) && one.pool != PoolId{}; });
  }

  void begin_live() {
    for (const BlockBefore& one : blocks_before(s_, out_.device))
      live_[one.address] = {one.stack, one.bytes};
  }

  std::string site(const Live& live) const {
    return live.made || live.stack != 0 ? site_of(s_, live.stack) : kBefore;
  }
  Site& entry(const Live& live) {
    Site*& known = entries_[{live.made != nullptr, live.stack, live.size}];
    if (known == nullptr) {
      std::string name = site(live);
      known = &sites_[{name, live.size}];
      known->site = std::move(name), known->size = live.size;
    }
    return *known;
  }

  std::vector<Part> parts_now(bool with_freed) {
    std::vector<Part> parts;
    if (!is_ours(s_)) return parts;
    for (const auto& [address, live] : live_) {
      if (!with_freed && requested_.contains(address)) continue;
      parts.push_back(live.made ? part_of(s_, *live.made, labels_)
                                : Part{MemoryKind::before, "", "", 1, live.size});
    }
    return sum_up(parts);
  }

  void take_peak() {
    for (const auto& [address, live] : live_) {
      Site& one = entry(live);
      ++one.count;
      one.bytes += live.size;
    }
    out_.parts = parts_now(true);
  }

  void take_oom() {
    const auto [first, last] = std::minmax(out_.peak_event, out_.oom->event);
    const auto begin = trace_->begin();
    out_.oom->at_peak = std::none_of(
        begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last),
        [](const AllocatorEvent& e) {
          return e.action == AllocatorAction::alloc || e.action == AllocatorAction::free_completed;
        });
    out_.oom->parts = parts_now(true);
  }

  void replay() {
    begin_live();
    if (out_.peak_event == 0) take_peak();
    for (std::size_t i = 0; i < trace_->size(); ++i) {
      const AllocatorEvent& e = (*trace_)[i];
      if (e.action == AllocatorAction::alloc) {
        ++entry(live_[e.address] = {e.stack, e.size, &e}).allocations;
      } else if (e.action == AllocatorAction::free_requested) {
        requested_[e.address] = e.time;
      } else if (e.action == AllocatorAction::free_completed) {
        requested_.erase(e.address);
        const auto block = live_.find(e.address);
        if (block != live_.end()) {
          if (const AllocatorEvent* made = block->second.made) {
            Site& one = entry(block->second);
            one.lifetime_us += static_cast<double>((e.time - made->time) / 1000);
            ++one.ended;
          }
          live_.erase(block);
        }
      }
      if (e.action == AllocatorAction::oom && i == out_.oom->event) take_oom();
      if (i + 1 == out_.peak_event) take_peak();
    }
    out_.left = parts_now(false);
    for (auto& [key, one] : sites_) out_.sites.push_back(std::move(one));
    std::ranges::stable_sort(out_.sites,
                             [](const Site& a, const Site& b) { return a.bytes > b.bytes; });
  }

  std::int64_t stream_at(std::int64_t address) const {
    const auto after = stream_of_.upper_bound(address);
    return after == stream_of_.begin() ? 0 : std::prev(after)->second;
  }

  void pending() {
    const Ns now = trace_->empty() ? 0 : trace_->back().time;
    std::map<std::int64_t, PendingFree> all;
    for (const MemoryBlock* block : at_end_)
      if (block->state == BlockState::pending_free)
        all[block->address] = {site_of(s_, block->stack), block->address, block->requested,
                               stream_at(block->address), -1};
    for (const auto& [address, time] : requested_) {
      const auto live = live_.find(address);
      if (live != live_.end() && !all.contains(address))
        all[address] = {site(live->second), address, live->second.size, stream_at(address), -1};
      if (const auto block = all.find(address); block != all.end())
        block->second.waiting_us = (now - time) / 1000;
    }
    for (auto& [address, one] : all) out_.pending.push_back(std::move(one));
    std::ranges::stable_sort(out_.pending,
                             [](const auto& a, const auto& b) { return a.size > b.size; });
  }

  const Snapshot& s_;
  const std::vector<AllocatorEvent> none_;
  const std::vector<AllocatorEvent>* trace_ = &none_;
  DeviceSummary out_;
  LabelOf labels_;
  std::vector<const MemoryBlock*> at_end_;  // by address
  std::map<std::int64_t, std::int64_t> stream_of_;
  std::map<std::int64_t, Live> live_;
  std::map<std::int64_t, std::int64_t> requested_;
  std::map<std::pair<std::string, std::int64_t>, Site> sites_;
  /// Stacks that differ below the site, or above it, are one site.
  std::map<std::tuple<bool, std::uint32_t, std::int64_t>, Site*> entries_;
};

}  // namespace

Site& Site::operator+=(const Site& other) {
  count += other.count, bytes += other.bytes, allocations += other.allocations;
  lifetime_us += other.lifetime_us, ended += other.ended;
  return *this;
}

Bytes room_of(const OutOfMemory& oom) {
  if (!oom.request || oom.request->limit == 0) return oom.device_free;
  return std::min(oom.device_free, std::max<Bytes>(oom.request->limit - oom.request->reserved, 0));
}

std::vector<DeviceSummary> analyse(const Snapshot& snapshot) {
  std::set<std::size_t> devices;
  for (const Segment& segment : snapshot.segments)
    devices.insert(static_cast<std::size_t>(segment.device));
  for (std::size_t d = 0; d < snapshot.traces.size(); ++d)
    if (!snapshot.traces[d].empty()) devices.insert(d);
  std::vector<DeviceSummary> out;
  out.reserve(devices.size());
  for (std::size_t d : devices) out.push_back(Analysis(snapshot, d).run());
  return out;
}

std::vector<SiteChange> differ(const Snapshot& before, const Snapshot& after,
                               const MovedSites& moved) {
  const auto sites_of = [](const Snapshot& snapshot) {
    std::vector<Site> out;
    for (DeviceSummary& device : analyse(snapshot))
      std::ranges::move(device.sites, std::back_inserter(out));
    return out;
  };
  const std::vector<Site> a = sites_of(before), b = sites_of(after);
  const std::map<std::string, std::string> names =
      moved ? moved(a, b) : std::map<std::string, std::string>();
  std::map<std::string, SiteChange> all;
  using Sizes = std::map<std::int64_t, Site>;
  const auto add = [&](const std::string& name, const Site& one, Site SiteChange::*sum,
                       Sizes SiteChange::*sizes) {
    SiteChange& change = all[name];
    change.site = name;
    if (one.site != name) change.was = one.site;
    change.*sum += one;
    Site& size = (change.*sizes)[one.size];
    size.size = one.size;
    size += one;
  };
  for (const Site& one : a) {
    const auto name = names.find(one.site);
    add(name == names.end() ? one.site : name->second, one, &SiteChange::before,
        &SiteChange::sizes_before);
  }
  for (const Site& one : b) add(one.site, one, &SiteChange::after, &SiteChange::sizes_after);
  const auto same = [](const auto& x, const auto& y) {
    const auto figures = [](const Site& s) {
      return std::tuple(s.size, s.count, s.bytes, s.allocations, s.ended);
    };
    return figures(x.second) == figures(y.second);
  };
  std::vector<SiteChange> out;
  for (auto& [site, c] : all)
    if (!std::ranges::equal(c.sizes_before, c.sizes_after, same)) out.push_back(std::move(c));
  std::ranges::stable_sort(out, [](const SiteChange& a, const SiteChange& b) {
    const auto weight = [](const SiteChange& c) {
      return std::tuple(std::abs(c.after.bytes - c.before.bytes),
                        std::abs(c.after.allocations - c.before.allocations));
    };
    return weight(a) > weight(b);
  });
  return out;
}

std::int64_t peak_of_active(const Snapshot& snapshot) {
  std::int64_t out = 0;
  for (const DeviceSummary& d : analyse(snapshot)) out += d.peak.active;
  return out;
}

}  // namespace tidemark
