#include "reports/compare/overlay.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/memory/highest_peak.h"
#include "harness/memory/places.h"
#include "reports/still.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
using Phase = MemoryPicture::Phase;

constexpr std::size_t kMoments = 1500;  // of a run
constexpr std::size_t kStill = 200;     // of a run in the picture without a script

/// A place of the picture, and the events of both runs that stand there.
struct Knot {
  double before = 0, after = 0, x = 0;
};

double event_at(const MemoryPicture& picture, std::size_t moment) {
  return static_cast<double>(picture.events[std::min(moment, picture.events.size() - 1)]);
}

/// The phases of both, one behind the other.
std::vector<std::pair<const Phase*, const Phase*>> common_phases(const MemoryPicture& before,
                                                                 const MemoryPicture& after) {
  std::map<std::pair<std::string, std::int64_t>, const Phase*> others;
  for (const Phase& one : after.phases) others.try_emplace({one.name, one.step}, &one);
  std::vector<std::pair<const Phase*, const Phase*>> out;
  for (const Phase& one : before.phases) {
    const auto other = others.find({one.name, one.step});
    if (other == others.end()) continue;
    if (out.empty() ||
        (out.back().first->to <= one.from && out.back().second->to <= other->second->from))
      out.emplace_back(&one, other->second);
  }
  return out;
}

std::vector<Knot> knots_of(const MemoryPicture& before, const MemoryPicture& after,
                           const std::vector<std::pair<const Phase*, const Phase*>>& phases) {
  std::vector<Knot> out{{}};
  const auto add = [&](double a, double b) {
    const Knot& last = out.back();
    out.push_back({a, b, last.x + std::max(a - last.before, b - last.after)});
  };
  for (const auto& [a, b] : phases) {
    add(event_at(before, a->from), event_at(after, b->from));
    add(event_at(before, a->to), event_at(after, b->to));
  }
  return out;
}

double place_of(const std::vector<Knot>& knots, double Knot::*side, double event) {
  auto next = std::ranges::upper_bound(knots, event, {}, side);
  if (next == knots.begin()) return event;
  const Knot& last = *std::prev(next);
  if (next == knots.end()) return last.x + event - last.*side;
  return last.x + (event - last.*side) / ((*next).*side - last.*side) * (next->x - last.x);
}

StillRun still_of(const char* name, const MemoryPicture& all, const std::vector<Knot>& knots,
                  double Knot::*side) {
  const MemoryPicture picture = thinned(all, kStill);
  const std::vector<std::int64_t> active = active_of(picture);
  StillRun out{fmt::format("{} run, {}", name, place_name(picture.where, picture.device)), {}};
  for (std::size_t i = 0; i < active.size(); ++i)
    out.levels.emplace_back(place_of(knots, side, event_at(picture, i)), active[i]);
  return out;
}

Json run_json(const char* name, const MemoryPicture& picture, const std::vector<Knot>& knots,
              double Knot::*side) {
  const std::vector<std::int64_t> active = active_of(picture);
  Json points = Json::array();
  for (std::size_t i = 0; i < active.size(); ++i)
    points.push_back({place_of(knots, side, event_at(picture, i)), active[i], picture.events[i]});
  return {{"name", name},
          {"where", place_name(picture.where, picture.device)},
          {"points", std::move(points)}};
}

}  // namespace

Picture overlay(const MemoryPicture& all_before, const MemoryPicture& all_after,
                const std::string& id) {
  const MemoryPicture before = thinned(all_before, kMoments), after = thinned(all_after, kMoments);
  const auto phases = common_phases(before, after);
  const std::vector<Knot> knots = knots_of(before, after, phases);
  Json bands = Json::array();
  std::vector<std::pair<std::string, double>> steps;
  for (const auto& [a, b] : phases) {
    const double begin = place_of(knots, &Knot::before, event_at(before, a->from));
    bands.push_back(
        {a->name, a->step, begin, place_of(knots, &Knot::before, event_at(before, a->to))});
    const std::string step = fmt::format("step {}", a->step);
    if (a->step > 0 && (steps.empty() || steps.back().first != step))
      steps.emplace_back(step, begin);
  }
  const Json json{{"kind", "overlay"},
                  {"phases", std::move(bands)},
                  {"runs",
                   {run_json("old", before, knots, &Knot::before),
                    run_json("new", after, knots, &Knot::after)}}};
  return {"Memory over time, the old run and the new one",
          json.dump(-1, ' ', false, Json::error_handler_t::replace),
          still_overlay(still_of("old", before, knots, &Knot::before),
                        still_of("new", after, knots, &Knot::after), steps, id)};
}

void add_overlays(std::vector<Section>& sections, const Side& base, const Side& fresh) {
  if (base.folder.empty() || fresh.folder.empty()) return;
  for (const TrialRecord& after : fresh.report.trials) {
    const auto same = [&](const TrialRecord& one) {
      return one.program && one.alive && one.schedule == after.schedule;
    };
    const auto before = std::ranges::find_if(base.report.trials, same);
    if (!after.program || !after.alive || before == base.report.trials.end()) continue;
    const std::string title = fmt::format("peak of active under {}: ", after.schedule);
    const auto section = std::ranges::find_if(
        sections, [&](const Section& one) { return one.title.starts_with(title); });
    if (section == sections.end()) continue;
    const auto a = picture_of_peak(base.folder, before->schedule, before->alive->where);
    const auto b = picture_of_peak(fresh.folder, after.schedule, after.alive->where);
    if (a && b)
      section->pictures.insert(section->pictures.begin(),
                               overlay(*a, *b, "over-" + after.schedule));
  }
}

std::filesystem::path records_beside(const std::filesystem::path& report) {
  std::error_code none;
  if (std::filesystem::is_directory(report, none)) return report;
  return report.filename() == "report.json" ? std::filesystem::absolute(report).parent_path()
                                            : std::filesystem::path();
}

}  // namespace tidemark
