#include "harness/memory/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "harness/memory/format/format.h"
#include "harness/memory/parts.h"

namespace tidemark {
namespace {

constexpr std::size_t kFewest = 3;  // steps that show a growth
constexpr std::size_t kYoung = 2;   // last steps, of which something may be kept for the next
// Steps in which blocks gave way to larger ones, until that is a growth: by the same each time; by
// any number of bytes, where all blocks are new each time, as outputs for batches of all lengths
// are a few times in a row; where some stay, as in a ring of buffers, whose sum may rise by chance.
constexpr std::size_t kFewestAlike = 4, kFewestLarger = 8, kFewestMixed = 16;
constexpr std::size_t kFewestRegular = 5;  // at equal distances, after more that were not
constexpr std::size_t kFewestUneven = 8;   // steps that show a growth at unequal distances
// Forwards, or ranges of the program, that show a growth, where they are the steps: fewer are those
// of a capture or a warm-up.
constexpr std::string_view kForward = "forward", kBackward = "backward";
constexpr std::size_t kFewestForwards = 8;
// A pause at the end that is as improbable at the rate before it has ended the growth.
constexpr double kEnded = 0.005;

struct Steps {
  std::string unit;
  std::vector<std::size_t> begins;    // moments
  std::vector<std::int64_t> numbers;  // of each; some may be left out
  std::size_t end = 0;                // what is alive then has been left behind
  bool ends = false;                  // what is given back later has not been left behind either
};

/// Phases of this name that an optimizer's step does not follow: those before it are parts of a
/// step.
Steps named(const MemoryPicture& picture, std::string_view name) {
  const bool is_range = name != kForward && name != kBackward;
  Steps out{is_range ? fmt::format("`{}`", name) : std::string(name), {}, {}, 0, name != kBackward};
  std::size_t end = 0;  // of the phase that is open, or of the optimizer's last step
  for (const MemoryPicture::Phase& phase : picture.phases)
    if (phase.name == "optimizer") end = std::max(end, phase.to);
  for (const MemoryPicture::Phase& phase : picture.phases) {
    if (phase.name != name) continue;
    // Of several threads: none of them is a step of all.
    if (phase.from < end && phase.to > end && !out.begins.empty()) return {};
    if (phase.from < end) continue;
    end = phase.to;
    // Nobody has counted those that are left out.
    if (phase.from < picture.whole_from) continue;
    out.begins.push_back(phase.from);
    out.numbers.push_back(std::ssize(out.begins));
  }
  out.end = end;  // the last backward frees the graph of the forwards before it
  return out;
}

/// Steps of one kind, and after training those of its evaluation: whether the first grow is asked
/// first.
std::vector<Steps> steps_of(const MemoryPicture& picture) {
  std::map<std::int64_t, std::size_t> begins(picture.left_steps.begin(), picture.left_steps.end());
  for (const MemoryPicture::Phase& phase : picture.phases) {
    const auto [at, fresh] = begins.try_emplace(phase.step, phase.from);
    if (!fresh) at->second = std::min(at->second, phase.from);
  }
  Steps out{"step", {}, {}, 0, false};
  const bool trains = begins.size() >= kFewest + kYoung;
  if (trains) {
    for (const auto& [step, from] : begins) out.begins.push_back(from), out.numbers.push_back(step);
    out.end = out.begins.back();
  } else if (Steps some = named(picture, kBackward); some.begins.size() >= kFewest + kYoung) {
    return {some};
  }
  if (Steps some = named(picture, kForward); some.begins.size() >= kFewestForwards + kYoung)
    return trains ? std::vector{out, some} : std::vector{some};
  if (trains) return {out};
  // The program's own ranges, those that come least often: they lie around the others.
  for (const MemoryPicture::Phase& phase : picture.phases) {
    if (phase.name == kForward || phase.name == kBackward) continue;
    Steps some = named(picture, phase.name);
    if (some.begins.size() >= kFewestForwards + kYoung &&
        (out.begins.empty() || some.begins.size() < out.begins.size()))
      out = std::move(some);
  }
  return {out};
}

/// Bytes and blocks at one place that each step has left behind: at the end they are older than any
/// that was freed there.
struct Left {
  Part part;
  std::vector<std::int64_t> bytes, blocks, filled;  // of the steps compared; filled: by blocks
  std::vector<std::int64_t> levels;  // at the begin of each step, of blocks that have outlived one
  Holding holding;
  std::int64_t latest = 0;         // step of which something is there at the end, however young
  std::vector<std::size_t> grown;  // steps, the last of them at equal distances
  bool grows = false;
  std::int64_t every = 0;  // these distances; 0: they are not equal, and `grown` is all steps
  std::int64_t span = 1;   // then the steps from the first of them on
  bool replaced = false;   // `bytes`: by how much its blocks gave way to larger ones
  bool all_new = true;     // then: no block has outlived a step that grows

  /// `compared` of `begun` steps.
  Left(std::size_t begun, std::size_t compared)
      : bytes(compared), blocks(compared), filled(compared), levels(begun) {}

  /// `numbers`: of the steps, and of the next one.
  void judge(const std::vector<std::int64_t>& numbers) {
    for (std::size_t step = 0; step < bytes.size(); ++step)
      if (bytes[step] > 0) grown.push_back(step);
    if (grown.size() < kFewest) return;
    // A step that is left out of the record is like the one before it.
    const bool each = grown[grown.size() - 3] + 3 == bytes.size();
    const auto distance = [&](std::size_t i) {
      return each ? static_cast<std::int64_t>(grown[i] - grown[i - 1])
                  : numbers[grown[i]] - numbers[grown[i - 1]];
    };
    const std::int64_t last = distance(grown.size() - 1);
    const bool ended = !each && numbers[grown.back()] + last < numbers[bytes.size()];
    std::size_t first = grown.size() - 1;
    while (first > 0 && distance(first) == last) --first;
    const std::size_t alike = ended ? 0 : grown.size() - first;
    const bool regular = alike >= kFewestRegular || 2 * alike >= grown.size();
    if (alike < kFewest || 2 * alike < grown.size()) judge_uneven(numbers);
    if (grows || alike < kFewest || !regular) return;
    grown.erase(grown.begin(), grown.begin() + static_cast<std::ptrdiff_t>(first));
    grows = is_sure() && !is_tooth(grown.front());
    every = last;
  }

  /// A growth at unequal distances goes on: a third of its steps lie in the second half, and the
  /// pause at its end is no longer than one that comes about once in 1 / kEnded times where each
  /// step grows with the share that has grown before. A cache that fills is none.
  void judge_uneven(const std::vector<std::int64_t>& numbers) {
    if (replaced || grown.size() < kFewestUneven) return;
    std::vector<std::int64_t> at;
    for (const std::size_t step : grown) at.push_back(numbers[step]);
    const std::int64_t end = numbers[bytes.size()];
    span = end - at.front();
    const auto late = at.end() - std::ranges::upper_bound(at, at.front() + span / 2);
    const double share =
        static_cast<double>(at.size() - 1) / static_cast<double>(at.back() - at.front());
    const double pause = static_cast<double>(numbers[numbers.size() - 1] - 1 - latest);
    grows = 3 * late >= std::ssize(at) && std::pow(1 - share, pause) >= kEnded &&
            !is_tooth(grown.front());
  }

  /// Bytes have been as high before the growth, or half as high, and were given back: it is then
  /// the last tooth of a saw, for all that is known.
  bool is_tooth(std::size_t first) const {
    const std::size_t since = std::min(replaced ? first : first + kYoung - 1, levels.size() - 1);
    const std::int64_t before =
        *std::max_element(levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(since) + 1);
    const std::int64_t begin = levels[since];
    return before > begin && levels.back() - begin <= 2 * (before - begin);
  }

  bool is_sure() const {
    return !replaced || grown.size() >= (all_new ? kFewestLarger : kFewestMixed) ||
           (grown.size() >= kFewestAlike &&
            std::all_of(grown.end() - kFewestAlike, grown.end(),
                        [&](std::size_t step) { return bytes[step] == last_bytes(); }));
  }

  std::int64_t last_bytes() const { return bytes[grown.back()]; }
  double rate() const { return a_step(bytes); }
  double filled_rate() const { return a_step(filled); }

  /// Mean over the steps that grow.
  std::int64_t mean(const std::vector<std::int64_t>& values) const {
    return std::llround(static_cast<double>(sum(values)) / static_cast<double>(grown.size()));
  }

  std::string often(const std::string& unit) const {
    if (every == 0) return fmt::format("in {} of {} {}s", grown.size(), span, unit);
    const bool alike =
        std::ranges::all_of(grown, [&](std::size_t step) { return bytes[step] == last_bytes(); });
    return how_often(every, unit) + (alike ? "" : " on average");
  }

 private:
  std::int64_t sum(const std::vector<std::int64_t>& values) const {
    std::int64_t all = 0;
    for (const std::size_t step : grown) all += values[step];
    return all;
  }
  double a_step(const std::vector<std::int64_t>& values) const {
    const std::int64_t steps = every > 0 ? every * std::ssize(grown) : span;
    return static_cast<double>(sum(values)) / static_cast<double>(steps);
  }
};

using Key = std::tuple<MemoryKind, std::string, std::string>;
using Places = std::map<Key, Left>;

/// Of each place of the picture; none of those whose growth has a known bound: a workspace for each
/// stream of a pool.
std::vector<std::optional<Key>> keys_of(const MemoryPicture& picture) {
  std::vector<std::optional<Key>> out;
  for (const MemoryPicture::Place& place : picture.places)
    out.push_back(
        place.kind == MemoryKind::workspaces
            ? std::nullopt
            : std::optional<Key>({place.kind, without_numbers(place.module), place.site}));
  return out;
}

Part as_part(const Key& key) {
  return std::apply([](const auto&... words) { return Part{words..., 0, 0}; }, key);
}

Places left_by(const MemoryPicture& picture, const Steps& steps,
               const std::vector<std::optional<Key>>& keys) {
  const std::size_t begun = steps.begins.size(), moments = picture.events.size();
  const auto step_at =
      [&](std::size_t moment) {  // a block that is there before all is of the first
        const auto after = std::ranges::lower_bound(steps.begins, moment);
        return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - steps.begins.begin(), 1)) -
               1;
      };
  // What is freed and waits for a stream is not left behind.
  const auto is_left = [&](const MemoryPicture::Block& block) {
    return block.waits > steps.end && (!steps.ends || block.waits >= moments);
  };
  std::map<Key, std::size_t> longest;  // in steps, of what has been freed
  std::vector<const MemoryPicture::Block*> old;
  for (const MemoryPicture::Block& block : picture.blocks) {
    if (!keys[block.place]) continue;
    if (block.from <= steps.begins.front() || block.from > steps.end) continue;
    const std::size_t age = step_at(std::min(block.waits, steps.end + 1)) - step_at(block.from);
    if (age < kYoung && !is_left(block)) continue;
    old.push_back(&block);
    if (is_left(block)) continue;
    std::size_t& most = longest[*keys[block.place]];
    most = std::max(most, age + 1);
  }
  Places all;
  for (const MemoryPicture::Block* block : old) {
    const Key& key = *keys[block->place];
    const auto found = longest.find(key);
    const std::size_t young = found == longest.end() ? kYoung : std::max(found->second, kYoung);
    Left& left = all.try_emplace(key, begun, begun - std::min(young, begun)).first->second;
    left.part = as_part(key);
    const std::size_t step = step_at(block->from);
    for (std::size_t at = step + kYoung; at < begun && steps.begins[at] < block->waits; ++at)
      left.levels[at] += block->bytes;
    if (!is_left(*block)) continue;
    left.latest = std::max(left.latest, steps.numbers[step]);
    if (step >= left.bytes.size()) continue;
    left.bytes[step] += block->bytes, left.blocks[step] += 1;
    left.filled[step] += recorder::rounded(block->bytes);
    left.holding.add(picture.places[block->place].holder, block->bytes);
  }
  return all;
}

/// Places where blocks give way to larger ones: from the begin of a step to that of the next, bytes
/// rise and blocks do not become more.
Places larger_in(const MemoryPicture& picture, const Steps& steps,
                 const std::vector<std::optional<Key>>& keys) {
  struct Alive {                                     // at the begin of each step
    std::vector<std::int64_t> bytes, blocks, fresh;  // fresh: blocks of the step before
    std::int64_t last = 0;                           // bytes at the end of the record
    Holding holding;
  };
  const auto index = [&](std::size_t moment) {
    return static_cast<std::size_t>(std::ranges::lower_bound(steps.begins, moment) -
                                    steps.begins.begin());
  };
  const std::size_t count = steps.begins.size(), first = index(picture.whole_from);
  const std::vector<std::int64_t> none(count);
  std::map<Key, Alive> all;
  for (const MemoryPicture::Block& block : picture.blocks) {
    const std::size_t from = std::max(index(block.from), first), until = index(block.waits);
    if (!keys[block.place]) continue;
    Alive& at = all[*keys[block.place]];
    if (at.bytes.empty()) at.bytes = at.blocks = at.fresh = none;
    if (block.waits >= picture.events.size()) at.last += block.bytes;
    if (from >= until) continue;
    ++at.fresh[from];
    for (std::size_t step = from; step < until; ++step)
      at.bytes[step] += block.bytes, ++at.blocks[step];
    at.holding.add(picture.places[block.place].holder, block.bytes);
  }
  Places out;
  for (const auto& [key, at] : all) {
    if (steps.ends && at.last < at.bytes.back()) continue;  // it was given back
    Left left(count, count - 1);
    left.replaced = true;
    left.levels = at.bytes;
    left.part = as_part(key);
    left.holding = at.holding;
    std::size_t since = first;  // from the last fall on, or the last block that was not there
    for (std::size_t step = first; step + 1 < count; ++step)
      if (at.bytes[step + 1] < at.bytes[step] || at.blocks[step + 1] > at.blocks[step])
        since = step + 1;
    for (std::size_t step = since; step + 1 < count; ++step) {
      left.bytes[step] = at.bytes[step + 1] - at.bytes[step];
      left.blocks[step] = at.fresh[step + 1];
      if (left.bytes[step] > 0 && at.fresh[step + 1] < at.blocks[step + 1]) left.all_new = false;
    }
    out.emplace(key, std::move(left));
  }
  return out;
}

/// Divides the bytes and blocks of a place that grows in each step among the steps that are alike.
void share(Left& left, const std::vector<std::int64_t>& numbers) {
  for (const std::size_t step : left.grown) {
    const std::int64_t steps = numbers[step + 1] - numbers[step];
    left.bytes[step] /= steps, left.filled[step] /= steps;
    left.blocks[step] = std::max(left.blocks[step] / steps, std::int64_t{1});
  }
}

std::optional<StepGrowth> growth_by(const MemoryPicture& picture, const Steps& steps) {
  if (steps.begins.size() < kFewest + kYoung) return {};
  const std::vector<std::optional<Key>> keys = keys_of(picture);
  Places all = left_by(picture, steps, keys);
  for (auto& [key, left] : all) {
    left.judge(steps.numbers);
    if (left.every == 1) share(left, steps.numbers);
  }
  const auto is_none = [](const auto& one) { return !one.second.grows; };
  std::erase_if(all, is_none);
  Places larger = larger_in(picture, steps, keys);
  for (auto& [key, left] : larger) left.judge(steps.numbers);
  std::erase_if(larger, is_none);
  all.merge(larger);
  if (all.empty()) return {};
  std::vector<const Left*> parts;
  for (const auto& [key, left] : all) parts.push_back(&left);
  std::ranges::stable_sort(parts, std::greater(), &Left::rate);
  const Left& most = *parts.front();
  StepGrowth out;
  out.where = picture.where, out.device = picture.device;
  out.unit = steps.unit, out.every = most.every;
  // Where all parts are compared: how far that is differs.
  std::size_t first = 0, last = most.grown.back(), times = most.grown.size();
  for (const Left* left : parts)
    first = std::max(first, left->grown.front()), last = std::min(last, left->grown.back());
  const auto common = [&](const Left& left) {
    std::vector<std::int64_t> bytes;
    for (const std::size_t step : left.grown)
      if (first <= step && step <= last) bytes.push_back(left.bytes[step]);
    return bytes;
  };
  for (const Left* left : parts) times = std::min(times, common(*left).size());
  std::vector<std::int64_t> sums(std::max<std::size_t>(times, 1));
  double rate = 0, fill_rate = 0;
  for (const Left* left : parts) {
    out.parts.push_back(left->part);
    out.parts.back().bytes = left->mean(left->bytes);
    out.parts.back().count = std::max(left->mean(left->blocks), std::int64_t{1});
    out.holders.push_back(left->holding.most());
    out.often.push_back(left->often(steps.unit));
    out.replaced.push_back(left->replaced);
    if (left->every != most.every) out.every = 0;
    rate += left->rate();
    fill_rate += left->filled_rate();
    const std::vector<std::int64_t> bytes = common(*left);
    for (std::size_t i = 0; i < times; ++i) sums[i] += bytes[i];
  }
  if (times == 0) out.every = 0;  // an average
  std::tie(out.least, out.most) = std::pair(std::ranges::min(sums), std::ranges::max(sums));
  out.filled = std::llround(fill_rate * static_cast<double>(std::max<std::int64_t>(out.every, 1)));
  if (out.every == 0) out.least = out.most = std::llround(rate);
  const std::size_t count = std::min(most.bytes.size(), steps.begins.size() - kYoung);
  out.since = steps.numbers[most.grown.front()];
  out.last = out.every > 1 ? steps.numbers[most.grown.back()] : steps.numbers[count] - 1;
  for (std::size_t at = steps.begins[count - 1]; at <= steps.begins[count]; ++at)
    out.reserved = std::max(out.reserved, picture.reserved[at]);
  return out;
}

}  // namespace

std::optional<StepGrowth> growth_of(const MemoryPicture& picture) {
  for (const Steps& steps : steps_of(picture))
    if (auto growth = growth_by(picture, steps)) return growth;
  return {};
}

}  // namespace tidemark
