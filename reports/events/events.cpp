#include "reports/events/events.h"

#include <fmt/format.h>

#include <ranges>
#include <stdexcept>
#include <unordered_map>

#include "harness/record/json.h"

namespace tidemark {
namespace {

/// Numbers addresses by their turn; one that is given out again gets a new number.
class Turns {
 public:
  std::int64_t take(std::int64_t address) { return places_[address] = next_++; }
  std::int64_t of(std::int64_t address) const {
    const auto place = places_.find(address);
    return place == places_.end() ? -1 : place->second;
  }

 private:
  std::unordered_map<std::int64_t, std::int64_t> places_;
  std::int64_t next_ = 0;
};

EventLog event_log(const TrialRecord& trial, const std::string& variant, const RankRecord& rank) {
  EventLog log{rank_place(trial, variant, rank.rank), rank.unheld, {}};
  Turns blocks, segments;
  std::unordered_map<std::int64_t, std::uint32_t> streams;  // by the order of first use
  for (std::size_t i = 0; i < rank.events.size(); ++i) {
    const std::vector<std::string> ops = rank.events[i].operators();
    StepEvents& step = log.steps.emplace_back();
    if (i > 0 && i - 1 < rank.steps.size()) step.phases = rank.steps[i - 1].phases;
    for (const AllocatorEvent& e : rank.events[i].traces | std::views::join) {
      const bool makes = e.action == AllocatorAction::alloc ||
                         e.action == AllocatorAction::segment_alloc ||
                         e.action == AllocatorAction::segment_map;
      Turns& turns = of_block(e.action) ? blocks : segments;
      const auto stream = static_cast<std::uint32_t>(streams.size());
      step.events.push_back({e.action, makes ? turns.take(e.address) : turns.of(e.address), e.size,
                             streams.try_emplace(e.stream, stream).first->second, ops.at(e.stack)});
    }
  }
  return log;
}

}  // namespace

std::string event_text(TrialRecord trial, const std::string& variant, const RankRecord& rank) {
  RankRecord kept;
  kept.rank = rank.rank;
  kept.steps = rank.steps;
  kept.unheld = rank.unheld;
  kept.events = rank.events;
  trial.variants = {{.name = variant, .ranks = {std::move(kept)}}};
  return json_text(trial);
}

std::vector<EventLog> event_logs(const TrialRecord& trial, const std::string& where) {
  std::vector<EventLog> logs;
  for (const VariantRecord& variant : trial.variants)
    for (const RankRecord& rank : variant.ranks)
      if (!rank.events.empty()) logs.push_back(event_log(trial, variant.name, rank));
  if (logs.empty())
    throw std::runtime_error(
        fmt::format("{}: has no allocator events: give what `run --events` wrote", where));
  return logs;
}

}  // namespace tidemark
