// Pictures that stand still: what a page shows of memory and of curves where its scripts do not
// run. A script that runs draws its own in their place.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/memory/picture.h"
#include "harness/record/units.h"

namespace tidemark {

struct Chart;  // html.h

/// The class of style.css that gives an element the colour of a kind: "kind-optimizer-state".
std::string tone_of(MemoryKind kind);

/// An entry of a legend: the swatch of a class of style.css, and a name.
std::string legend_entry(const std::string& tone, const std::string& name, bool dashed = false);
/// A list of such entries.
std::string legend(const std::string& entries);

/// Memory over time by kind, as it is at its highest in each of at most 160 stretches, with the
/// line of reserved memory, the begins of steps, and `capacity` where it is not far above (0:
/// none). The scale has room for `highest` too.
std::string still_memory(const MemoryPicture& picture, Bytes capacity, Bytes highest = 0);
/// The same, and what is alive by kind, module and line at the moment that page/memory.js opens
/// with: that of the refused block, else the peak.
std::string still_page(const MemoryPicture& picture, Bytes capacity);
/// A level of memory over places of a picture, by place.
struct StillRun {
  std::string name;
  std::vector<std::pair<double, Bytes>> levels;
};
/// Two runs over each other: hatched where the new one has more, hatched the other way where it has
/// less. `steps`: names with the places at which they begin; `id`: of this picture on its page.
std::string still_overlay(const StillRun& before, const StillRun& after,
                          const std::vector<std::pair<std::string, double>>& steps,
                          const std::string& id);
/// Lines of a chart; empty where it has fewer than two points.
std::string still_chart(const Chart& chart);
/// Sums by kind of what is alive at the peak of a picture, the largest first, as a table.
std::vector<std::vector<std::string>> alive_by_kind(const MemoryPicture& picture);

}  // namespace tidemark
