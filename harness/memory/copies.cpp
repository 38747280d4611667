#include "harness/memory/copies.h"

#include <algorithm>
#include <utility>

#include "harness/memory/format/format.h"
#include "harness/memory/walk.h"

namespace tidemark {

void tell_copies(Snapshot& snapshot, std::size_t device) {
  const auto outside = std::ranges::find(snapshot.modules, recorder::kOutsideModules);
  const auto is_forward = [&](const ProgramPhase& one) {
    return one.device == static_cast<std::int64_t>(device) && one.name == "forward";
  };
  const auto first = std::ranges::find_if(snapshot.phases, is_forward), end = snapshot.phases.end();
  const auto next = std::find_if(first, end, [&](const ProgramPhase& one) {
    return is_forward(one) && one.step > first->step;
  });
  if (outside == snapshot.modules.end() || next == end || device >= snapshot.traces.size()) return;
  auto& trace = snapshot.traces[device];
  TraceWalk walk(trace);
  std::size_t before = 0;  // events until the first forward
  while (walk.moment() < next->begin && walk.next())
    if (walk.moment() <= first->begin) before = walk.place() + 1;
  for (const auto& [address, block] : walk.live())
    if (block < before && std::cmp_equal(trace[block].module, outside - snapshot.modules.begin()))
      trace[block].module = 0;
}

}  // namespace tidemark
