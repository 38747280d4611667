#include "harness/fit/question.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/exec/outcome.h"
#include "harness/fit/result.h"
#include "harness/record/units.h"
#include "reports/fit/text.h"

namespace tidemark {
namespace {

/// The line with each number as one letter: it often has the value that was refused.
std::string without_digits(const std::string& line) {
  std::string out;
  for (const char c : line) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || out.empty() || out.back() != '#') out += digit ? '#' : c;
  }
  return out;
}

/// What grows with the searched value: of processes that share a GPU the sum.
double peak_of(const FitRun& run) {
  return static_cast<double>(std::max(run.allocated, run.shared ? run.shared->bytes : 0));
}

bool same_peaks(const FitRun& a, const FitRun& b) {
  return a.allocated == b.allocated && a.active == b.active && a.reserved == b.reserved;
}

}  // namespace

void Store::add(const FitRun& run) {
  runs_[{values_text(run.values), run.gpu, run.capacity}].push_back(run);
}

const FitRun* Store::find(const FitValues& values, const std::string& gpu, Bytes capacity) const {
  const auto runs = runs_.find({values_text(values), gpu, capacity});
  return runs == runs_.end() ? nullptr : &runs->second.front();
}

const FitRun* Store::second(const FitValues& values, const std::string& gpu, Bytes capacity) const {
  const auto runs = runs_.find({values_text(values), gpu, capacity});
  return runs == runs_.end() || runs->second.size() < 2 ? nullptr : &runs->second[1];
}

std::vector<FitRun> Store::all() const {
  std::vector<FitRun> out;
  for (const auto& [key, runs] : runs_) out.push_back(runs.front());
  return out;
}

std::int64_t Question::count() const {
  return searched_ == nullptr ? 1 : static_cast<std::int64_t>(searched_->values.size());
}

FitValues Question::values_at(std::int64_t place) const {
  FitValues values = listed_;
  if (searched_ != nullptr)
    values[searched_->name] = searched_->values[static_cast<std::size_t>(place)];
  return values;
}

// NCCL's memory counts for a program that calls it, whatever its values.
Bytes Question::capacity(const Store& store) const {
  for (std::int64_t place = 0; place < count(); ++place)
    if (const FitRun* run = with_room(store, place); run != nullptr && run->nccl)
      return gpu_.memory.capacity(true);
  return gpu_.memory.capacity(false);
}

// A memory fraction is a part of whatever the GPU has, so each run tells it.
Bytes Question::limit(const Store& store) const {
  const Bytes most = capacity(store);
  Bytes out = 0;
  for (std::int64_t place = 0; place < count(); ++place)
    for (const FitRun* run : {with_room(store, place), real(store, place)}) {
      if (run == nullptr || run->limit == 0 || run->capacity == 0) continue;
      const double part = static_cast<double>(run->limit) / static_cast<double>(run->capacity);
      const Bytes here = std::llround(part * static_cast<double>(most));
      if (here < most && (out == 0 || here < out)) out = here;
    }
  return out;
}

Bytes Question::most(const Store& store) const {
  const Bytes own = limit(store);
  return own > 0 ? own : capacity(store);
}

const FitRun* Question::with_room(const Store& store, std::int64_t place) const {
  return store.find(values_at(place), room_, kRoom);
}

const FitRun* Question::real(const Store& store, std::int64_t place) const {
  return store.find(values_at(place), gpu_.memory.name, capacity(store));
}

const FitRun* Question::run_of(const Store& store, std::int64_t place) const {
  const FitRun* own = real(store, place);
  return own != nullptr ? own : with_room(store, place);
}

// With room to spare the allocator never frees what it has cached. A GPU with at least as much as
// it reserved then runs the same; one with less than was allocated cannot hold it. Between the two
// a run at the GPU's own size decides, which may be the only one of a value.
Seen Question::seen(const Store& store, std::int64_t place) const {
  const FitRun* room = with_room(store, place);
  const FitRun* own = real(store, place);
  const Bytes most = this->most(store);
  for (const FitRun* run : {room, own})
    if (run != nullptr && run->killed) return {Fits::undecided};
  if (adapts_) {
    if (own == nullptr) return {};
    if (own->ooms > 0) return {Fits::no, static_cast<double>(most) + 1};
    if (own->exit_code != 0) return {Fits::refused};
    if (!own->unknown.empty()) return {};
    return {shares(*own, most) ? Fits::undecided : Fits::yes, peak_of(*own)};
  }
  double peak = -1;
  if (room != nullptr) {
    if (room->exit_code != 0 && room->ooms == 0) return {Fits::refused};
    if (!room->unknown.empty()) return {};
    peak = peak_of(*room);
    if (room->ooms > 0 || room->allocated > most) return {Fits::no, peak};
    if (shares(*room, most)) return {Fits::undecided, peak};
    if (room->reserved <= most) return {Fits::yes, peak};
    if (own == nullptr) return {Fits::unknown, peak, true};
  }
  if (own == nullptr) return {};
  if (own->ooms > 0) return {Fits::no, peak};
  if (own->exit_code != 0) return {Fits::refused};
  if (!own->unknown.empty()) return {};
  if (shares(*own, most)) return {Fits::undecided, peak};
  return {Fits::yes, peak};
}

Known Question::known(const Store& store) const {
  Known all;
  for (std::int64_t place = 0; place < count(); ++place) {
    const bool has_room = !adapts_ && with_room(store, place) != nullptr;
    if (has_room || real(store, place) != nullptr) all[place] = seen(store, place);
  }
  return all;
}

std::vector<Wanted> Question::next(const Store& store) const {
  if (other_ != nullptr && !other_->next(store).empty()) return {};  // this one waits
  const std::int64_t guess = other_ == nullptr ? -1 : largest(other_->known(store));
  const Bytes size = capacity(store);
  const Known seen_now = known(store);
  for (const auto& [place, one] : seen_now)
    if (one.fits == Fits::unknown && !one.at_edge) return {};  // nothing can be said
  if (given_up(store, seen_now)) return {};
  std::vector<Wanted> out;
  for (const Try& one : next_tries(seen_now, count(), static_cast<double>(most(store)), guess))
    out.push_back(adapts_ || one.at_size ? run_at_size(values_at(one.place), gpu_.memory.name, size)
                                         : run_with_room(values_at(one.place), room_));
  if (!out.empty() || adapts_) return out;
  for (const std::int64_t place : {largest(seen_now), miss(seen_now)})  // what is alive in them
    if (place >= 0 && with_room(store, place) == nullptr)
      out.push_back(run_with_room(values_at(place), room_));
  return out;
}

bool Question::given_up(const Store& store, const Known& seen) const {
  constexpr int kEnough = 3;
  std::map<std::string, int> equal;
  for (const auto& [place, one] : seen) {
    if (one.fits != Fits::refused) return false;
    for (const FitRun* run : {with_room(store, place), real(store, place)})
      if (run != nullptr && run->exit_code != 0 && run->ooms == 0)
        if (++equal[without_digits(run->last)] >= kEnough) return true;
  }
  return false;
}

std::int64_t Question::miss(const Known& all) {
  const std::int64_t best = largest(all);
  for (const auto& [place, one] : all)
    if (one.fits == Fits::no && place > best) return place;
  return -1;
}

// A program that ran without a retry must have the same peaks at the GPU's own size. If not, it
// reads the size, or no two of its runs are alike, which a second one with room shows.
std::vector<Wanted> Question::check(const Store& store) {
  const std::int64_t place = largest(known(store));
  if (place < 0 || adapts_ || differs_) return {};
  const FitRun* room = with_room(store, place);
  const FitRun* own = real(store, place);
  if (own == nullptr) return {run_at_size(values_at(place), gpu_.memory.name, capacity(store))};
  if (room->reserved > most(store) || (ended_well(*own) && same_peaks(*room, *own))) return {};
  const FitRun* again = store.second(values_at(place), room_, kRoom);
  if (again == nullptr) {
    Wanted second = run_with_room(values_at(place), room_);
    second.again = true;
    return {second};
  }
  differs_ = !same_peaks(*room, *again);
  adapts_ = !differs_;
  return {};
}

void Question::tell_miss(FitAnswer& answer, const Store& store, const Known& all) const {
  const std::int64_t best = largest(all);
  const FitRun* nearest = nullptr;
  for (const auto& [place, one] : all) {
    const FitRun* run = with_room(store, place);
    if (one.fits != Fits::no || place < best || run == nullptr || run->ooms > 0) continue;
    if (nearest == nullptr || (best < 0 && run->reserved < nearest->reserved)) nearest = run;
  }
  if (nearest == nullptr) return;
  if (searched_ != nullptr) answer.next = nearest->values.at(searched_->name);
  answer.missing = std::max<Bytes>(nearest->reserved - answer.most(), 0);
  if (best < 0) answer.run = *nearest;
  answer.because = grown_most(best < 0 ? nullptr : with_room(store, best), *nearest);
}

FitAnswer Question::answer(const Store& store) const {
  FitAnswer out;
  out.values = listed_;
  out.gpu = gpu_.memory.name;
  out.room = room_;
  out.capacity = capacity(store);
  out.limit = limit(store);
  const Known all = known(store);
  const std::int64_t best = largest(all);
  bool refused = !all.empty();
  for (const auto& [place, one] : all) {
    refused = refused && one.fits == Fits::refused;
    const FitRun* run = run_of(store, place);
    if (one.fits == Fits::unknown)
      out.why = run->unknown.empty() ? "the run at the GPU's size has not ended" : run->unknown;
    if (one.fits == Fits::unknown && place < best) out.why.clear();
    if (one.fits == Fits::undecided && best < 0)
      out.why = run->killed ? run->unknown : shared_text(*run->shared, out.most());
    if (one.fits == Fits::refused && best < 0) out.why = run->last;
  }
  const bool open = !next(store).empty();
  if (all.empty() || (open && best < 0)) {
    out.verdict = "not run";
  } else if (best >= 0) {
    out.verdict = "fits";
    if (open) out.why = "not all runs have ended: larger values may fit";
    if (searched_ != nullptr) out.largest = values_at(best).at(searched_->name);
    const FitRun* room = with_room(store, best);
    out.run = *run_of(store, best);
    if (room != nullptr && !out.run->alive) out.run->alive = room->alive;
    if (room != nullptr && out.run->step_ns == 0) out.run->step_ns = room->step_ns;
  } else {
    const bool unknown = std::ranges::any_of(all, [](const auto& each) {
      return each.second.fits == Fits::unknown || each.second.fits == Fits::undecided;
    });
    out.verdict = unknown ? "unknown" : refused ? "refused by the program" : "does not fit";
  }
  if (given_up(store, all)) out.why = "three values were refused alike, so the others did not run";
  tell_miss(out, store, all);
  return out;
}

std::vector<std::string> Question::notes(const Store& store) const {
  std::vector<std::string> out;
  const std::string where =
      (listed_.empty() ? "" : values_text(listed_) + " on ") + gpu_.memory.name;
  const Known all = known(store);
  if (adapts_)
    out.push_back(where +
                  ": the program does something else on a GPU of this size than with room "
                  "to spare: it reads the size. The answer is from runs at that size.");
  if (differs_)
    out.push_back(where +
                  ": two runs of the same command have other peaks: the program is not "
                  "deterministic, and the answer is that of one run.");
  for (const auto& [place, one] : all) {
    const FitRun* run = run_of(store, place);
    if (one.fits != Fits::undecided || run->killed || place < largest(all)) continue;
    out.push_back(fmt::format("{}: whether {} fits is not known: {}", where,
                              searched_ == nullptr ? "it" : values_text(run->values),
                              shared_text(*run->shared, most(store))));
    break;
  }
  if (searched_ == nullptr || all.size() < 2) return out;
  const auto at_size = std::ranges::count_if(all, [&](const auto& one) {
    return one.second.fits == Fits::no && one.first > largest(all) &&
           real(store, one.first) != nullptr;
  });
  if (grows(all) && !adapts_ && at_size > 0)
    out.push_back(fmt::format(
        "{}: {} larger {} of {} allocate{} less than the capacity: each of them ran at "
        "the GPU's size, and ran out of memory.",
        where, at_size, at_size > 1 ? "values" : "value", searched_->name, at_size > 1 ? "" : "s"));
  const auto above = static_cast<std::int64_t>(
      std::ranges::count_if(all, [&](const auto& one) { return one.first > largest(all); }));
  if (!grows(all))
    out.push_back(
        fmt::format("{}: the peaks do not grow with {}, so {} of {} larger values were tried.",
                    where, searched_->name, above, count() - 1 - largest(all)));
  return out;
}

}  // namespace tidemark
