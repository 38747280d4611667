// Fields of what one rank records; fields.h says how they are named.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/record/meaning.h"
#include "harness/record/record.h"

namespace tidemark {

void visit(Level& x, auto& f) {
  f.title("level");
  f("peak", x.peak, meaning::bytes);
  f("end", x.end, meaning::bytes);
}

void visit(Phase& x, auto& f) {
  f.title("phase");
  f("name", x.name, meaning::name);
  for (const Statistic s : kStatistics) f(name_of(s), x[s]);
}

void visit(Moment& x, auto& f) {
  f.title("moment");
  f("name", x.name, meaning::name);
  f("allocated", x.allocated, meaning::bytes);
  f("requested", x.requested, meaning::bytes);
}

void visit(Call& x, auto& f) {
  f.title("call");
  f("op", x.op, meaning::name);
  f("unit", x.unit, meaning::name);
}

void visit(Step& x, auto& f) {
  f.title("step");
  f("phases", x.phases);
  f("moments", x.moments);
  f("calls", x.calls, meaning::none, "what the program did to its units, in order");
  f.later("collectives", x.collectives, meaning::count, "of this step, by operation");
  f.later("collective_bytes", x.collective_bytes, meaning::bytes,
          "of their whole tensors: what is gathered, reduced or sent");
}

void visit(Category& x, auto& f) {
  f.title("category");
  f("peak_share", x.peak_share, meaning::bytes);
  f("end", x.end, meaning::bytes);
}

void visit(Counters& x, auto& f) {
  f.title("counters");
  f("num_alloc_retries", x.num_alloc_retries, meaning::count);
  f("num_ooms", x.num_ooms, meaning::count);
  f("num_device_alloc", x.num_device_alloc, meaning::count);
  f("num_device_free", x.num_device_free, meaning::count);
  f("num_sync_all_streams", x.num_sync_all_streams, meaning::count);
  f("launches", x.launches, meaning::count);
  f("synchronisations", x.synchronisations, meaning::count);
  f("collectives", x.collectives, meaning::count);
}

void visit(Access& x, auto& f) {
  f.title("access");
  f("op", x.op);
  f("stream", x.stream);
  f.later("span", x.span, meaning::place, "its place in the rank's spans, or -1");
}

void visit(Race& x, auto& f) {
  f.title("race");
  f("first", x.first);
  f("second", x.second);
  f("bytes", x.bytes, meaning::bytes);
  f("explanation", x.explanation);
  f.optional("kind", x.kind, meaning::name, "freed (a use of freed memory), race, within");
}

void visit(std::pair<std::string, Ns>& x, auto& f) {
  f.title("phase_start");
  f("name", x.first, meaning::name);
  f("time", x.second, meaning::ns);
}

void visit(AliveBlock& x, auto& f) {
  f.title("alive",
          "op: the operator that allocated it, empty where operators were not followed (they are "
          "while a program is built, in its first and in its last step); shape and dtype of the "
          "first tensor on it; pending: freed, and awaiting its streams");
  f("bytes", x.bytes, meaning::bytes);
  f("requested", x.requested, meaning::bytes);
  f("category", x.category, meaning::memory_kind);
  f("op", x.op);
  f("shape", x.shape, meaning::count);
  f("dtype", x.dtype);
  f("stream", x.stream);
  f("pending", x.pending);
}

void visit(Spans& x, auto& f) {
  f.title(
      "spans",
      "columns of equal length, in the order of enqueueing: what occupied each stream in the "
      "last step, on the device's clock, and the host's waits (stream 0). kinds a letter each: o "
      "operator, l collective, c copy, w wait. enqueued: the host's clock. left_out: the "
      "shortest, where there were too many");
  f("streams", x.streams);
  f("names", x.names);
  f.columns(x.all, [&](auto& column) {
    column.letters("kinds", &Span::kind, kSpanKinds);
    column.places("stream", &Span::stream, x.streams);
    column.places("name", &Span::name, x.names);
    column("enqueued", &Span::enqueued);
    column("begin", &Span::begin);
    column("end", &Span::end);
  });
  f("left_out", x.left_out, meaning::count);
}

void visit(MemoryHistory& x, auto& f) {
  f.title(
      "trace",
      "columns of equal length: the allocator's events of a step. actions a letter each: "
      "a alloc, r free_requested, c free_completed, s segment_alloc, f segment_free, m "
      "segment_map, u segment_unmap, o oom. left_out: the first ones, where there were too many");
  // A file has the names of the streams, and an event the place of its own.
  std::vector<std::string> streams;
  std::map<std::int64_t, std::int64_t> places;
  for (const auto& [stream, name] : x.streams) {
    places[stream] = std::ssize(streams);
    streams.push_back(name);
  }
  std::vector<AllocatorEvent> events;
  if (!x.traces.empty()) events = x.traces[0];
  for (AllocatorEvent& event : events) {
    const auto [place, fresh] = places.try_emplace(event.stream, std::ssize(streams));
    if (fresh) streams.emplace_back();
    event.stream = place->second;
  }
  auto ops = x.traces.empty() ? std::vector<std::string>() : x.operators();
  f("streams", streams);
  f("ops", ops);
  f.columns(events, [&](auto& column) {
    column.letters("actions", &AllocatorEvent::action, kActions);
    column("address", &AllocatorEvent::address);
    column("bytes", &AllocatorEvent::size);
    column("time", &AllocatorEvent::time);
    column.places("stream", &AllocatorEvent::stream, streams);
    column.places("op", &AllocatorEvent::stack, ops);
  });
  f("left_out", x.left_out, meaning::count);
  f.once_read([&] {
    x.set_operators(ops);
    for (std::size_t i = 0; i < streams.size(); ++i)
      x.streams[static_cast<std::int64_t>(i)] = std::move(streams[i]);
    if (!ops.empty()) x.traces.push_back(std::move(events));
  });
}

void visit(Distance& x, auto& f) {
  f.title("distance", "null: not finite");
  f("ulps", x.ulps);
  f("absolute", x.absolute);
  f("relative", x.relative);
}

void visit(GradientError& x, auto& f) {
  f.title("gradient", "first: the first element that differs from the baseline's, or -1");
  f("name", x.name, meaning::name);
  f("shape", x.shape, meaning::count);
  f("baseline", x.baseline);
  f("reference", x.reference);
  f("first", x.first, meaning::place);
}

void visit(OutsideOwners& x, auto& f) {
  f.title("outside_owners",
          "the owners of that memory of a real GPU, as NVML tells them apart; driver: kept back by "
          "driver and firmware. Or why they are not known");
  f.either("unknown", x.unknown, [&](auto& g) {
    g("own", x.own, meaning::bytes);
    g("others", x.others, meaning::bytes);
    g("driver", x.driver, meaning::bytes);
  });
}

/// True for a struct of which a list is written as columns, by a `visit` of its own.
template <class Row>
inline constexpr bool kInColumns = std::is_same_v<Row, Sample>;

void visit(std::vector<Sample>& x, auto& f) {
  f.title(
      "timeline",
      "columns of equal length: the last step's memory over the host's time, thinned, peaks kept");
  f.columns(x, [](auto& column) {
    column("time", &Sample::time);
    column("allocated", &Sample::allocated);
    column("active", &Sample::active);
    column("reserved", &Sample::reserved);
  });
}

void visit(RankRecord& x, auto& f) {
  f.title("rank");
  f("rank", x.rank, meaning::rank);
  f.derived(
      "phases", [&] { return x.steps.empty() ? std::vector<Phase>() : x.steps.back().phases; },
      "of the last step", "differs from the last of 'steps'");
  f("categories", x.categories, meaning::none,
    "of the last step; the shares sum to its highest allocated moment");
  f("counters", x.counters);
  f("races", x.races);
  f.group("rest", "what the program holds before the last step and after it, as requested",
          [&](auto& g) {
            g("before", x.rest_before, meaning::bytes);
            g("after", x.rest_after, meaning::bytes);
          });
  f.runs("steps", x.steps, "times: steps in a row that are all this one");
  f.detail("phase_starts", x.phase_starts);
  f.detail("timeline", x.timeline);
  f.detail("largest", x.largest, meaning::none,
           "blocks alive at the highest allocated moment of the last step, the largest first");
  f.exported("spans", x.spans);
  f.exported("memory", x.memory);
  f.optional("outside_allocator", x.outside, meaning::bytes,
             "what the device holds beyond 'reserved' when the steps are over: context, NCCL, "
             "cuBLAS, and what other processes have on it");
  f.optional("outside_owners", x.owners);
  f.optional("unheld", x.unheld, meaning::name,
             "why a real GPU was not held back under lagging; not there where it was");
  f.optional("events", x.events, meaning::none,
             "of `run --events`, in files of their own: while the program was built, then of each "
             "step");
}

}  // namespace tidemark
