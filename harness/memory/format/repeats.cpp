#include "harness/memory/format/repeats.h"

#include <cstring>

#include "harness/memory/format/names.h"

namespace tidemark::recorder {

void Repeats::add(std::string_view entry) {
  if (step_.too_long) return;
  step_.entries += entry;
  if (step_.entries.size() <= kBytes) return;
  step_.too_long = true;
  step_.entries = {};
}

// True if the last `period` steps are the same as those before.
bool Repeats::repeats(std::size_t period) const {
  if (steps_.size() < 2 * period) return false;
  for (std::size_t i = 0; i < period; ++i) {
    const Step& now = steps_[steps_.size() - 1 - i];
    if (!now.repeats(steps_[steps_.size() - 1 - i - period])) return false;
  }
  return true;
}

void Repeats::begin_cycle(std::size_t period) {
  std::string entry(1, static_cast<char>(Tag::repeats));
  put(entry, period);
  entry.append(sizeof(std::uint64_t), 0);
  if (!file_.append(entry)) return;
  cycle_ = Cycle{period, 0, file_.size() - sizeof(std::uint64_t), file_.size()};
}

// The step that has ended belongs to another repetition.
bool Repeats::continues() {
  Cycle& cycle = *cycle_;
  const Step& before = steps_[steps_.size() - cycle.period + cycle.step];
  if (!step_.repeats(before)) return false;
  if (++cycle.step < cycle.period) return true;
  file_.moment().size = cycle.end;
  ++file_.moment().repeats;
  file_.commit();  // before what follows is written in its place
  cycle.step = 0;
  return true;
}

void Repeats::end_cycle() {
  char bytes[sizeof(std::uint64_t)];
  std::memcpy(bytes, &file_.moment().repeats, sizeof bytes);
  file_.replace(cycle_->count_at, {bytes, sizeof bytes});
  file_.moment().repeats = 0;
  steps_.clear();  // a count lies between them and this step
  cycle_.reset();
}

void Repeats::limit() {
  std::size_t bytes = 0, kept = 0;
  while (kept < steps_.size() && kept < 2 * kPeriod) {
    bytes += steps_[steps_.size() - 1 - kept].entries.size();
    if (bytes > kBytes) break;
    ++kept;
  }
  while (steps_.size() > kept) steps_.pop_front();
}

std::size_t Repeats::next() {
  std::size_t begun = 0;
  if (!cycle_ || !continues()) {
    if (cycle_) end_cycle();
    steps_.push_back(std::move(step_));
    limit();
    for (std::size_t period = 1; period <= kPeriod && begun == 0; ++period)
      if (repeats(period)) {
        begin_cycle(period);
        begun = counts() ? period : 0;
      }
  }
  step_ = Step{};
  return begun;
}

}  // namespace tidemark::recorder
