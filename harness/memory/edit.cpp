#include "harness/memory/edit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "harness/memory/walk.h"
#include "harness/record/one_line.h"

namespace tidemark {
namespace {

using What = AllocatorRequest::What;

[[noreturn]] void refuse(const std::string& text) {
  throw std::runtime_error(
      fmt::format("--edit '{}' is not FILE:LINE xFACTOR or FILE:LINE until backward, as in "
                  "'model.py:88 x0.5'",
                  one_line(text)));
}

template <class Number>
bool read(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

bool is_in(const std::string& path, const std::string& file) {
  return path.ends_with(file) && (path.size() == file.size() || file.starts_with('/') ||
                                  path[path.size() - file.size() - 1] == '/' ||
                                  path[path.size() - file.size() - 1] == '\\');
}

/// Stacks that come through the line. Throws where none does.
std::unordered_set<std::uint32_t> stacks_of(const Edit& edit, const Snapshot& s,
                                            const std::vector<AllocatorRequest>& requests) {
  std::unordered_set<std::uint32_t> out, seen;
  std::map<std::int64_t, int> lines;  // of the file
  for (const AllocatorRequest& one : requests) {
    if (one.what != What::take || !seen.insert(one.stack).second) continue;
    for (const std::uint32_t at : s.stacks[one.stack]) {
      const StackFrame& frame = s.frames[at];
      if (!is_in(frame.file, edit.file)) continue;
      ++lines[frame.line];
      if (frame.line == edit.line) out.insert(one.stack);
    }
  }
  if (!out.empty()) return out;
  if (lines.empty())
    throw SnapshotError(fmt::format("has no allocation that comes through {} (--edit '{}')",
                                    one_line(edit.file), one_line(edit.text)));
  std::vector<std::int64_t> near;
  for (const auto& [line, count] : lines) near.push_back(line);
  std::ranges::stable_sort(near, {}, [&](std::int64_t line) { return std::abs(line - edit.line); });
  near.resize(std::min<std::size_t>(near.size(), 8));
  std::ranges::sort(near);
  throw SnapshotError(
      fmt::format("has no allocation that comes through {}:{}, but through its lines {} (--edit)",
                  one_line(edit.file), edit.line, fmt::join(near, ", ")));
}

/// A backward, as events of the trace: from its first allocation to that of the next phase.
struct Stretch {
  std::size_t begin = 0, end = 0;
};

/// The backwards of a device, by `begin`.
std::vector<Stretch> backwards(const Snapshot& s, std::size_t device) {
  std::map<ProgramPhase::Moment, bool> begins;  // of phases; true: of a backward
  for (const ProgramPhase& phase : s.phases)
    if (static_cast<std::size_t>(phase.device) == device &&
        (phase.name == "forward" || phase.name == "backward" || phase.name == "optimizer"))
      begins[phase.begin] |= phase.name == "backward";
  std::vector<Stretch> out;
  bool open = false;
  const auto begin = [&](const ProgramPhase::Moment& moment, std::size_t event) {
    const auto phase = begins.find(moment);
    if (phase == begins.end()) return;
    if (open) out.back().end = event;
    open = phase->second;
    if (open) out.push_back({event, s.traces[device].size()});
    begins.erase(phase);
  };
  begin({}, 0);
  for (TraceWalk walk(s.traces[device]); walk.next();)
    if (walk.moved()) begin(walk.moment(), walk.place() + 1);
  return out;
}

/// The smallest number of stacks after which they repeat; all of them where they do not.
std::size_t period(const std::vector<std::uint32_t>& stacks) {
  for (std::size_t p = 1; p <= stacks.size() / 2; ++p)
    if (stacks.size() % p == 0 &&
        std::equal(stacks.begin() + static_cast<std::ptrdiff_t>(p), stacks.end(), stacks.begin()))
      return p;
  return stacks.size();
}

/// Gives the blocks of a line back before the backward, and takes them again in it: in parts, each
/// one run of the line as far as its stacks repeat. A part is taken again with the allocation after
/// which the first of its blocks is freed, or as soon as the part behind it is all freed.
class Recomputing {
 public:
  Recomputing(const std::vector<Stretch>& of, const std::unordered_set<std::uint32_t>& stacks,
              std::vector<AllocatorRequest>& requests)
      : backwards_(of), stacks_(stacks), requests_(requests) {}

  /// How many parts are taken again.
  std::size_t run() {
    find();
    for (const auto& [backward, takes] : takes_) plan(backward, takes);
    write();
    return parts_;
  }

 private:
  struct Life {
    std::size_t take = 0, freed = SIZE_MAX;  // requests
    std::size_t backward = 0;                // the next one
    bool again = false;                      // it is taken in it again
  };

  void find() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const AllocatorRequest& one = requests_[i];
      if (one.block == SIZE_MAX) continue;
      if (one.what == What::take && stacks_.contains(one.stack)) {
        const auto next = std::ranges::lower_bound(backwards_, one.event, {}, &Stretch::begin);
        if (next == backwards_.end()) continue;
        const auto backward = static_cast<std::size_t>(next - backwards_.begin());
        lives_[one.block] = {i, SIZE_MAX, backward};
        takes_[backward].push_back(i);
      } else if (one.what != What::take) {
        const auto life = lives_.find(one.block);
        if (life != lives_.end() && life->second.freed == SIZE_MAX) life->second.freed = i;
      }
    }
  }

  Life& life_of(std::size_t take) { return lives_.at(requests_[take].block); }
  /// It is there when the backward begins.
  bool is_early(const Life& life) const {
    return life.freed == SIZE_MAX || requests_[life.freed].event >= backwards_[life.backward].begin;
  }
  bool is_freed_in(const Life& life, const Stretch& stretch) const {
    return life.freed != SIZE_MAX && requests_[life.freed].event >= stretch.begin &&
           requests_[life.freed].event < stretch.end;
  }
  static std::int64_t copy_of(std::size_t block) { return -1 - static_cast<std::int64_t>(block); }

  void plan(std::size_t backward, const std::vector<std::size_t>& takes) {
    const Stretch& stretch = backwards_[backward];
    const auto begin = static_cast<std::size_t>(
        std::ranges::lower_bound(requests_, stretch.begin, {}, &AllocatorRequest::event) -
        requests_.begin());
    std::vector<std::uint32_t> stacks;
    for (const std::size_t take : takes) stacks.push_back(requests_[take].stack);
    const std::size_t size = period(stacks);
    std::size_t behind = SIZE_MAX;  // where the part behind is all freed
    for (std::size_t end = takes.size(); end > 0; end -= size) {
      const std::span part(takes.data() + end - size, size);
      std::size_t first = SIZE_MAX, last = 0;
      for (const std::size_t take : part) {
        const Life& life = life_of(take);
        if (!is_early(life)) continue;
        given_[begin].push_back(requests_[take]);
        given_[begin].back().what = What::come_back;
        if (is_freed_in(life, stretch))
          first = std::min(first, life.freed), last = std::max(last, life.freed + 1);
      }
      if (first == SIZE_MAX) continue;
      while (first > begin && requests_[first - 1].what == What::take) --first;
      take_again(part, std::min(first, behind), last, backward);
      behind = last;
    }
  }

  /// `last`: where the last of its blocks is freed.
  void take_again(std::span<const std::size_t> part, std::size_t place, std::size_t last,
                  std::size_t backward) {
    ++parts_;
    std::vector<std::size_t> all;
    const bool ends = backward + 1 < backwards_.size();
    for (const std::size_t take : part) {
      Life& life = life_of(take);
      all.push_back(take);
      life.again = is_early(life);
      if (!life.again) all.push_back(life.freed);
      const bool outlives =
          life.freed == SIZE_MAX ? ends : requests_[life.freed].event >= backwards_[backward].end;
      if (life.again && outlives) again_[last].push_back(copy(take, What::come_back));
    }
    std::ranges::sort(all);
    for (const std::size_t one : all)
      again_[place].push_back(
          copy(one, requests_[one].what == What::take ? What::take : What::come_back));
  }
  AllocatorRequest copy(std::size_t request, What what) const {
    AllocatorRequest out = requests_[request];
    out.what = what, out.address = copy_of(out.block);
    return out;
  }

  void write() {
    std::vector<AllocatorRequest> out;
    const auto add = [&](const auto& from, std::size_t place) {
      if (const auto some = from.find(place); some != from.end())
        out.insert(out.end(), some->second.begin(), some->second.end());
    };
    for (std::size_t i = 0; i <= requests_.size(); ++i) {
      add(given_, i), add(again_, i);
      if (i == requests_.size()) break;
      const AllocatorRequest& one = requests_[i];
      const auto life = one.block == SIZE_MAX ? lives_.end() : lives_.find(one.block);
      if (life == lives_.end() || one.what == What::take || !is_early(life->second)) {
        out.push_back(one);
      } else if (life->second.again &&
                 is_freed_in(life->second, backwards_[life->second.backward])) {
        out.push_back(one);
        out.back().address = copy_of(one.block);
      }
    }
    requests_ = std::move(out);
  }

  const std::vector<Stretch>& backwards_;
  const std::unordered_set<std::uint32_t>& stacks_;
  std::vector<AllocatorRequest>& requests_;
  std::unordered_map<std::size_t, Life> lives_;            // by block
  std::map<std::size_t, std::vector<std::size_t>> takes_;  // by backward
  /// What comes before a request, by its place.
  std::map<std::size_t, std::vector<AllocatorRequest>> given_, again_;
  std::size_t parts_ = 0;
};

}  // namespace

Edit parse_edit(const std::string& text) {
  const std::size_t space = text.find(' ');
  const std::size_t colon = text.rfind(':', space);
  if (space == std::string::npos || colon == std::string::npos || colon == 0) refuse(text);
  Edit out{.text = text, .file = text.substr(0, colon)};
  if (!read(text.substr(colon + 1, space - colon - 1), out.line) || out.line < 1) refuse(text);
  const std::string change = text.substr(space + 1);
  out.until_backward = change == "until backward";
  if (out.until_backward) return out;
  const bool is_factor = change.starts_with('x') && read(change.substr(1), out.factor);
  if (!is_factor || !std::isfinite(out.factor) || out.factor <= 0 || out.factor > 1000)
    refuse(text);
  return out;
}

Edited apply(const Edit& edit, const Snapshot& snapshot, std::size_t device, Workload& workload) {
  const auto stacks = stacks_of(edit, snapshot, workload.requests);
  Edited out;
  for (AllocatorRequest& one : workload.requests) {
    const bool asks = one.what == What::take || one.what == What::refused;
    if (!asks || !stacks.contains(one.stack)) continue;
    if (one.what == What::take) ++out.blocks, out.bytes += one.bytes;
    const double bytes = std::ceil(static_cast<double>(one.bytes) * edit.factor);
    one.bytes = std::max<Bytes>(1, static_cast<Bytes>(std::min(bytes, 1e15)));
  }
  if (!edit.until_backward) return out;
  const std::vector<Stretch> all = backwards(snapshot, device);
  if (all.empty())
    throw SnapshotError(fmt::format("shows no backward (--edit '{}')", one_line(edit.text)));
  out.recomputed = Recomputing(all, stacks, workload.requests).run();
  return out;
}

}  // namespace tidemark
