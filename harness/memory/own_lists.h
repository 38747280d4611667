// The lists that `tidemark exec --report` adds to a snapshot, each of rows of numbers and texts:
// their keys and cells, for what reads and what writes them.
#pragma once

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Calls f(key, list, what a row is, cells) for each list. `cells` calls what it is given with the
/// members of a row, in the order of the file.
void own_lists(auto& snapshot, auto f) {
  f("tidemark_labels", snapshot.labels, "a device, a count, an address, a kind and a name",
    [](auto& l, auto put) { put(l.device, l.allocations, l.address, l.kind, l.name); });
  f("tidemark_holders", snapshot.holders, "a device, a count, an address, a kind and a name",
    [](auto& h, auto put) { put(h.device, h.allocations, h.address, h.kind, h.name); });
  f("tidemark_uses", snapshot.uses, "a device, a count, an address and a use",
    [](auto& u, auto put) { put(u.device, u.allocations, u.address, u.use); });
  f("tidemark_sources", snapshot.sources, "a file, a line and its text",
    [](auto& s, auto put) { put(s.file, s.line, s.text); });
  f("tidemark_phases", snapshot.phases, "a device, two moments of two counts, a name and a step",
    [](auto& p, auto put) {
      put(p.device, p.begin.allocations, p.begin.frees, p.end.allocations, p.end.frees, p.name,
          p.step);
    });
  f("tidemark_gathers", snapshot.gathers, "a device, a count, two addresses and a size",
    [](auto& g, auto put) { put(g.device, g.allocations, g.output, g.shard, g.shard_bytes); });
  f("tidemark_computed", snapshot.computed, "a device, a count and two addresses",
    [](auto& c, auto put) { put(c.device, c.allocations, c.address, c.source); });
  f("tidemark_repeats", snapshot.repeats, "two steps and a count",
    [](auto& r, auto put) { put(r.first, r.last, r.count); });
  f("tidemark_skipped", snapshot.skipped, "a device, two steps, two counts and a moment",
    [](auto& s, auto put) {
      put(s.device, s.first, s.last, s.count, s.events, s.at.allocations, s.at.frees);
    });
  f("tidemark_left_steps", snapshot.left_steps, "a device, a step and a moment",
    [](auto& s, auto put) { put(s.device, s.step, s.at.allocations, s.at.frees); });
}

}  // namespace tidemark
