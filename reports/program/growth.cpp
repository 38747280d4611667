#include "reports/program/growth.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "harness/virtual/recorder/format.h"
#include "reports/program/places.h"
#include "reports/snapshot/parts.h"
#include "reports/units.h"

namespace tidemark {
namespace {

constexpr std::size_t kFewest = 3;  // steps that show a growth
constexpr std::size_t kYoung = 2;   // last steps, of which something may be kept for the next

struct Steps {
  std::string unit;
  std::vector<std::size_t> begins;    // moments
  std::vector<std::int64_t> numbers;  // of each, of which some may be left out
  std::size_t end = 0;                // what is alive then has been left behind
};

/// Phases of this name that an optimizer's step does not follow: those before it are parts of a
/// step.
Steps named(const MemoryPicture& picture, const char* name) {
  Steps out{name, {}, {}, 0};
  std::size_t end = 0;  // of the phase that is open, or of the optimizer's last step
  for (const MemoryPicture::Phase& phase : picture.phases)
    if (phase.name == "optimizer") end = std::max(end, phase.to);
  for (const MemoryPicture::Phase& phase : picture.phases) {
    if (phase.name != name || phase.from < end) continue;
    end = phase.to;
    // Nobody has counted those that are left out.
    if (phase.from < picture.whole_from) continue;
    out.begins.push_back(phase.from);
    out.numbers.push_back(std::ssize(out.begins));
  }
  out.end = end;  // the last backward frees the graph of the forwards before it
  return out;
}

Steps steps_of(const MemoryPicture& picture) {
  std::map<std::int64_t, std::size_t> begins(picture.left_steps.begin(), picture.left_steps.end());
  for (const MemoryPicture::Phase& phase : picture.phases) {
    const auto [at, fresh] = begins.try_emplace(phase.step, phase.from);
    if (!fresh) at->second = std::min(at->second, phase.from);
  }
  Steps out{"step", {}, {}, 0};
  if (begins.size() >= kFewest + kYoung) {
    for (const auto& [step, from] : begins) out.begins.push_back(from), out.numbers.push_back(step);
    out.end = out.begins.back();
    return out;
  }
  for (const char* name : {"backward", "forward"})
    if (Steps some = named(picture, name); some.begins.size() >= kFewest + kYoung) return some;
  return out;
}

/// Bytes and blocks that each step has left behind at one place, and the bytes of these blocks.
struct Left {
  Part part;
  std::vector<std::int64_t> bytes, blocks, filled;
  std::map<Holder, std::int64_t> held;  // bytes by what holds them
  Holder holder() const {
    if (held.empty()) return {};
    return std::ranges::max_element(held, {}, [](const auto& one) { return one.second; })->first;
  }
  /// The first step since which each has left something; none: `bytes.size()`.
  std::size_t since() const {
    std::size_t first = bytes.size();
    while (first > 0 && bytes[first - 1] > 0) --first;
    return first;
  }
};

}  // namespace

std::optional<StepGrowth> growth_of(const MemoryPicture& picture) {
  const Steps steps = steps_of(picture);
  if (steps.begins.size() < kFewest + kYoung) return {};
  const std::size_t end = steps.end, count = steps.begins.size() - kYoung;
  std::map<std::tuple<std::string, std::string, std::string>, Left> all;
  for (const MemoryPicture::Block& block : picture.blocks) {
    if (block.from <= steps.begins.front() || block.from > end || block.until <= end) continue;
    const auto after = std::ranges::lower_bound(steps.begins, block.from);
    const auto step = static_cast<std::size_t>(after - steps.begins.begin()) - 1;
    if (step >= count) continue;
    const MemoryPicture::Place& place = picture.places[block.place];
    const std::string module = without_numbers(place.module);
    Left& left = all[{place.kind, module, place.site}];
    left.part = {place.kind, module, place.site, 0, 0};
    left.bytes.resize(count), left.blocks.resize(count), left.filled.resize(count);
    left.bytes[step] += block.bytes, left.blocks[step] += 1;
    left.filled[step] += recorder::rounded(block.bytes);
    if (place.holder.is_known()) left.held[place.holder] += block.bytes;
  }
  for (auto& [key, left] : all)
    for (std::size_t step = 0; step < count; ++step) {
      const std::int64_t steps_in_it = steps.numbers[step + 1] - steps.numbers[step];
      left.bytes[step] /= steps_in_it, left.filled[step] /= steps_in_it;
      if (left.blocks[step] > 0)
        left.blocks[step] = std::max(left.blocks[step] / steps_in_it, std::int64_t{1});
    }
  StepGrowth out{picture.where, picture.device, steps.unit, 0, 0, 0, 0, 0, 0, {}, {}};
  std::size_t since = 0;  // of the place that leaves most behind
  for (auto& [key, left] : all) {
    if (left.since() + kFewest > count) continue;
    left.part.bytes = left.bytes.back(), left.part.count = left.blocks.back();
    if (out.parts.empty() || left.part.bytes > std::ranges::max(out.parts, {}, &Part::bytes).bytes)
      since = left.since();
    out.parts.push_back(left.part);
  }
  if (out.parts.empty()) return {};
  std::ranges::stable_sort(out.parts, std::greater(), &Part::bytes);
  for (const Part& part : out.parts)
    out.holders.push_back(all.at({part.kind, part.module, part.site}).holder());
  std::vector<std::int64_t> sums(count - since), filled(count - since);
  for (const auto& [key, left] : all)
    for (std::size_t step = since; left.since() + kFewest <= count && step < count; ++step)
      sums[step - since] += left.bytes[step], filled[step - since] += left.filled[step];
  std::tie(out.least, out.most) = std::pair(std::ranges::min(sums), std::ranges::max(sums));
  out.filled = std::ranges::max(filled);
  out.since = steps.numbers[since];
  out.last = steps.numbers[count] - 1;
  for (std::size_t at = steps.begins[count - 1]; at <= steps.begins[count]; ++at)
    out.reserved = std::max(out.reserved, picture.reserved[at]);
  return out;
}

namespace {

std::string module_text(const std::string& module) {
  if (module.empty()) return "";
  return module == recorder::kOutsideModules ? ", " + module : ", module " + module;
}

/// "; held by `total` in main (train.py:9)", of the first parts.
std::string held_by(const StepGrowth& growth, std::size_t most) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, growth.holders.size()); ++i)
    if (const Holder& holder = growth.holders[i];
        holder.is_known() && std::ranges::find(names, holder.text()) == names.end())
      names.push_back(holder.text());
  if (names.empty()) return "; what holds them is not known";
  return fmt::format("; held by {}", fmt::join(names, ", and by "));
}

}  // namespace

std::string growth_text(const StepGrowth& growth, Bytes capacity) {
  constexpr std::size_t kMost = 3;  // places
  std::vector<std::string> places;
  for (std::size_t i = 0; i < std::min(kMost, growth.parts.size()); ++i) {
    const Part& part = growth.parts[i];
    places.push_back(fmt::format("{} in {}, {}{}{}", bytes_text(part.bytes),
                                 plural(part.count, "block"), part.kind, module_text(part.module),
                                 part.site.empty() ? "" : ", " + part.site));
  }
  if (growth.parts.size() > kMost)
    places.push_back(fmt::format("{} more", growth.parts.size() - kMost));
  const bool differ = growth.most - growth.least > growth.most / 20;
  std::string out =
      fmt::format("{} grows by {}{} a {} since {} {}: {}", place_name(growth.where, growth.device),
                  differ ? bytes_text(growth.least) + " to " : "", bytes_text(growth.most),
                  growth.unit, growth.unit, growth.since, fmt::join(places, "; "));
  out += held_by(growth, kMost);
  if (std::ranges::all_of(growth.holders, &Holder::is_cycle))
    return out;  // it is freed now and then
  if (capacity <= growth.reserved || growth.filled == 0) return out;
  const std::int64_t full = growth.last + (capacity - growth.reserved) / growth.filled + 1;
  return out + fmt::format("; at this rate the {} of this GPU are full in {} {}",
                           bytes_text(capacity), growth.unit, full);
}

}  // namespace tidemark
