#include "reports/program/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>

#include "harness/record/json.h"
#include "reports/program/finding.h"
#include "reports/program/page.h"
#include "reports/program/snapshot_page.h"

namespace tidemark {
namespace {

constexpr std::int64_t kKiB = 1024, kSmall = 1 << 20;

struct OutOfRoom {};

/// Allocations one behind the other, in segments of 20 MiB, and of 2 MiB for those of at most
/// 1 MiB: no address comes twice. A segment in which nothing is left is given back, unless it is
/// the last one of its size. `held`: every third block that is freed is held for another stream
/// until so many further allocations; 0: none.
class Allocator {
 public:
  explicit Allocator(std::string prefix, bool mapped = false, std::int64_t fails = 0,
                     std::int64_t held = 0)
      : prefix_(std::move(prefix)), mapped_(mapped), fails_(fails), held_(held) {
    out_.traces.emplace_back();
    out_.labelled = true;
  }

  std::int64_t take(std::int64_t bytes, const std::string& module, std::int64_t line,
                    const std::string& node = "") {
    if (fails_ > 0 && now_.allocations + 1 == fails_) {
      AllocatorEvent& refused = event(AllocatorAction::oom, 1024, bytes);
      refused.stack = stack(line, node);
      refused.module = this->module(module);
      throw OutOfRoom();
    }
    const std::int64_t size = (bytes + 511) / 512 * 512;
    Pool& pool = pools_[size <= kSmall ? 0 : 1];
    if (pool.next + size > pool.end) {
      pool = {pool.end + (mapped_ ? 0 : pool.segment), 0, pool.segment};
      pool.end = pool.next + pool.segment;
      segments_[pool.next].size = pool.segment;
      event(mapped_ ? AllocatorAction::segment_map : AllocatorAction::segment_alloc, pool.next,
            pool.segment);
    }
    const std::int64_t address = pool.next;
    pool.next += size;
    AllocatorEvent& made = event(AllocatorAction::alloc, address, bytes);
    made.stack = stack(line, node);
    made.module = this->module(module);
    ++now_.allocations;
    const std::uint32_t by = made.stack;
    std::prev(segments_.upper_bound(address))->second.blocks[address] = {bytes, by};
    while (!waiting_.empty() && waiting_.front().second <= now_.allocations) {
      const std::int64_t due = waiting_.front().first;
      waiting_.pop_front();
      complete(due);
    }
    return address;
  }
  void give(std::int64_t address) {
    event(AllocatorAction::free_requested, address, bytes_of(address));
    if (held_ > 0 && ++given_ % 3 == 0)
      waiting_.emplace_back(address, now_.allocations + held_);
    else
      complete(address);
  }
  void label(std::int64_t address, MemoryKind kind, const std::string& name) {
    out_.labels.push_back({0, now_.allocations, address, kind, prefix_ + name});
  }
  void begin() { begin_ = now_; }
  void end(const std::string& name, std::int64_t step) {
    out_.phases.push_back({0, begin_, now_, name, step});
  }

  Snapshot end() {
    for (const auto& [begin, segment] : segments_) {
      Segment one;
      one.address = begin, one.total_size = segment.size;
      one.expandable = mapped_;
      if (mapped_) one.pool = {0, 1};
      std::int64_t at = begin;
      const auto free_until = [&](std::int64_t to) {
        if (at < to) one.blocks.push_back({at, to - at});
      };
      for (const auto& [address, block] : segment.blocks) {
        const auto& [bytes, stack] = block;
        const bool waits = std::ranges::find(waiting_, address, &Waiting::first) != waiting_.end();
        free_until(address);
        one.blocks.push_back({address, (bytes + 511) / 512 * 512, bytes,
                              waits ? BlockState::pending_free : BlockState::allocated, stack});
        at = address + one.blocks.back().size;
      }
      free_until(begin + segment.size);
      out_.segments.push_back(std::move(one));
    }
    return std::move(out_);
  }

 private:
  struct Pool {
    std::int64_t next, end, segment;  // addresses, and the size of a segment
  };
  struct Reserved {
    std::int64_t size = 0;
    std::map<std::int64_t, std::pair<std::int64_t, std::uint32_t>>
        blocks;  // by address: bytes as requested, stack
  };
  using Waiting = std::pair<std::int64_t, std::int64_t>;  // address, allocations until it is given

  std::int64_t bytes_of(std::int64_t address) const {
    return std::prev(segments_.upper_bound(address))->second.blocks.at(address).first;
  }
  void complete(std::int64_t address) {
    event(AllocatorAction::free_completed, address, bytes_of(address));
    ++now_.frees;
    const auto segment = std::prev(segments_.upper_bound(address));
    auto& [size, blocks] = segment->second;
    blocks.erase(address);
    const auto is_last = [&](const Pool& pool) { return pool.end == segment->first + size; };
    if (!blocks.empty() || std::ranges::any_of(pools_, is_last)) return;
    event(mapped_ ? AllocatorAction::segment_unmap : AllocatorAction::segment_free, segment->first,
          size);
    segments_.erase(segment);
  }
  AllocatorEvent& event(AllocatorAction action, std::int64_t address, std::int64_t bytes) {
    AllocatorEvent one;
    one.action = action, one.address = address, one.size = bytes;
    one.time = ns_of(std::ssize(out_.traces[0]));
    out_.traces[0].push_back(one);
    return out_.traces[0].back();
  }
  std::uint32_t frame(const StackFrame& one) {
    out_.frames.push_back(one);
    return static_cast<std::uint32_t>(out_.frames.size() - 1);
  }
  std::uint32_t stack(std::int64_t line, const std::string& node) {
    const auto [at, fresh] = stacks_.try_emplace({line, node}, out_.stacks.size());
    if (fresh) {
      std::vector<std::uint32_t> frames;
      if (!node.empty()) frames.push_back(frame({node, "autograd", 0}));
      frames.push_back(frame({prefix_ + "forward", "/nowhere/" + prefix_ + "train.py", line}));
      frames.push_back(frame({"_call_impl", "/site-packages/torch/nn/modules/module.py", 1786}));
      frames.push_back(frame({prefix_ + "main", "/nowhere/" + prefix_ + "train.py", 2}));
      out_.stacks.push_back(std::move(frames));
    }
    return static_cast<std::uint32_t>(at->second);
  }
  std::uint32_t module(const std::string& name) {
    const std::string whole = name.empty() ? "" : prefix_ + name;
    const auto match = std::ranges::find(out_.modules, whole);
    if (match == out_.modules.end()) out_.modules.push_back(whole);
    return static_cast<std::uint32_t>(std::ranges::find(out_.modules, whole) -
                                      out_.modules.begin());
  }

  Snapshot out_;
  std::string prefix_;
  bool mapped_;
  std::int64_t fails_ = 0, held_ = 0, given_ = 0;
  std::deque<Waiting> waiting_;
  std::array<Pool, 2> pools_{{{std::int64_t{1} << 40, std::int64_t{1} << 40, 2 << 20},
                              {std::int64_t{1} << 42, std::int64_t{1} << 42, 20 << 20}}};
  ProgramPhase::Moment now_, begin_;
  std::map<std::int64_t, Reserved> segments_;  // by address
  std::map<std::pair<std::int64_t, std::string>, std::size_t> stacks_;
};

}  // namespace

Snapshot training(int layers, int steps, int each, const std::string& prefix, bool mapped,
                  std::int64_t fails, std::int64_t held) {
  Allocator a(prefix, mapped, fails, held);
  std::string phase;
  const auto begin = [&](const char* next) { a.begin(), phase = next; };
  int now = 0;  // the step
  try {
    const auto name = [](int layer) { return fmt::format("layers.{}.up", layer); };
    for (int layer = 0; layer < layers; ++layer)
      a.label(a.take(4000 * kKiB, "", 3), MemoryKind::parameters, name(layer) + ".weight");
    for (int step = 1; step <= steps; ++step) {
      now = step;
      std::vector<std::vector<std::int64_t>> kept(static_cast<std::size_t>(layers));
      begin("forward");
      for (int layer = 0; layer < layers; ++layer)
        for (int i = 0; i < each; ++i) {
          const std::int64_t scratch = a.take(100 * kKiB, name(layer), 9);
          kept[static_cast<std::size_t>(layer)].push_back(
              a.take((1500 + 10 * i) * kKiB, name(layer), 10 + i % 5));
          a.give(scratch);
        }
      a.end("forward", step);
      begin("backward");
      std::vector<std::int64_t> gradients;
      for (int layer = layers; layer-- > 0;) {
        for (const std::int64_t block : kept[static_cast<std::size_t>(layer)]) {
          const std::int64_t scratch = a.take(200 * kKiB, name(layer), 10, "MmBackward0");
          a.give(block);
          a.give(scratch);
        }
        gradients.push_back(a.take(4000 * kKiB, name(layer), 10, "MmBackward0"));
        a.label(gradients.back(), MemoryKind::gradients, name(layer) + ".weight");
      }
      a.end("backward", step);
      begin("optimizer");
      if (step == 1)
        for (int layer = 0; layer < layers; ++layer)
          a.label(a.take(8000 * kKiB, "", 20), MemoryKind::optimizer_state,
                  name(layer) + ".weight");
      for (const std::int64_t block : gradients) a.give(block);
      a.end("optimizer", step);
    }
  } catch (const OutOfRoom&) {
    if (!phase.empty()) a.end(phase, now);  // as the recorder ends those that are open
  }
  return a.end();
}

Snapshot of_ring(Snapshot snapshot, std::size_t lost) {
  std::vector<AllocatorEvent>& trace = snapshot.traces.at(0);
  trace.erase(trace.begin(), trace.begin() + static_cast<std::ptrdiff_t>(lost));
  for (AllocatorEvent& event : trace) event.module = 0;
  snapshot.labelled = false;
  snapshot.labels.clear(), snapshot.phases.clear(), snapshot.modules = {""};
  return snapshot;
}

namespace {

/// Programs of sizes at random: few and many steps, with the capacity below and above the peak.
void write_drawn(const std::filesystem::path& folder) {
  const char* seed = std::getenv("TIDEMARK_TEST_SEED");
  std::mt19937 random(seed == nullptr ? 1 : static_cast<unsigned>(std::atoi(seed)));
  const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % most); };
  for (int i = 0; i < 4; ++i) {
    const int layers = up_to(10), steps = i % 2 == 0 ? up_to(12) : 100 * up_to(15) / layers + 1;
    const Bytes each = layers * Bytes{16} << 20;
    write_program(folder / fmt::format("program_drawn_{}", i), {training(layers, steps, up_to(6))},
                  each * up_to(8) / 4);
  }
}

}  // namespace

Report write_program(const std::filesystem::path& folder, const std::vector<Snapshot>& ranks,
                     Bytes capacity, const std::vector<Snapshot>& room) {
  std::vector<File> files, of_room;
  for (std::size_t rank = 0; rank < room.size(); ++rank)
    of_room.push_back({fmt::format("rank{}.pickle", rank), pickle(room[rank])});
  if (!room.empty()) write_files(folder / kRoomFolder, of_room);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    files.push_back({fmt::format("rank{}.pickle", rank), pickle(ranks[rank])});
  write_files(folder, files);
  const std::vector<HighestPeak> peaks{highest_peak(folder, "lagging")};
  Report report;
  report.run.profile = "h100-80g";
  report.run.capacity_bytes = capacity;
  report.run.torch = "2.11.0", report.run.tidemark = "1.0.0";
  report.run.started = "2026-11-30T06:42:33Z";
  report.run.argv = {"tidemark", "exec", "--report", "report", "--", "python3", "train.py"};
  TrialRecord trial = program_trial({"python3", "train.py"}, Mode::known, "lagging",
                                    std::max(static_cast<int>(ranks.size()), 1));
  ProgramRecord& program = *trial.program;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ProcessRecord process;
    process.rank = static_cast<int>(rank), process.pid = 1000 + static_cast<int>(rank);
    process.ended = true;
    for (const DeviceSummary& device : analyse(ranks[rank])) {
      process.devices.push_back({0, device.peak.active, device.peak.active, device.peak.reserved,
                                 device.peak.active, 0, device.ooms});
      if (device.ooms > 0) program.exit_code = 1;
    }
    program.processes.push_back(std::move(process));
  }
  trial.alive = alive_at(peaks[0]);
  for (const Snapshot& one : room)
    for (const DeviceSummary& device : analyse(one)) {
      if (!program.needs) program.needs.emplace();
      program.needs->reserved = std::max(program.needs->reserved, device.peak.reserved);
    }
  program.finding = finding_of(trial, peaks[0], report.run);
  report.trials.push_back(std::move(trial));
  std::vector<File> pages = program_files(report, peaks, folder);
  pages.push_back({"report.json", json_text(report)});
  write_files(folder, pages);
  return report;
}

void write_programs(const std::filesystem::path& folder, bool large) {
  std::vector<Snapshot> ranks{training(4, 3, 6), training(3, 3, 6), training(3, 3, 6)};
  std::string source;
  for (int line = 1; line <= 20; ++line) source += fmt::format("    line_{}(<b>)\n", line);
  write_files(folder / "program", {{"train.py", source}});
  for (Snapshot& rank : ranks)
    for (StackFrame& frame : rank.frames)
      if (frame.file.starts_with("/nowhere/")) {
        frame.file = std::filesystem::absolute(folder) / "program" / "train.py";
        rank.sources.push_back({frame.file, frame.line, fmt::format("line_{}(<b>)", frame.line)});
      }
  write_program(folder / "program", ranks, Bytes{110} << 20);
  write_files(folder / "program", {{"rank0.json", snapshot_json(ranks[0])}});
  write_program(folder / "program_hostile",
                {training(3, 2, 4, "<img src=x onerror=alert(1)></script>")});
  write_program(folder / "program_without_events", {Snapshot()});
  write_program(folder / "program_without_snapshots", {});
  Snapshot first;  // whose first allocation has failed
  first.traces.push_back({{.action = AllocatorAction::oom, .address = 1024, .size = 4096}});
  first.labelled = true;
  write_program(folder / "program_without_memory", {first});
  Allocator one("");
  one.take(1000, "", 1);
  write_program(folder / "program_of_one_event", {one.end()});
  const Snapshot pooled = training(4, 3, 6, "", true, 0, 5);
  write_program(folder / "program_pools", {pooled});
  write_files(folder / "program_pools", {{"rank0.json", snapshot_json(pooled)}});
  Snapshot deep = training(3, 2, 4);
  std::vector<std::uint32_t>& stack = deep.stacks.back();
  for (std::int64_t call = 1; stack.size() < 1000; ++call) {
    stack.push_back(static_cast<std::uint32_t>(deep.frames.size()));
    deep.frames.push_back({"recurse", "/nowhere/deep.py", call});
  }
  write_program(folder / "program_deep", {deep});
  write_files(folder / "program_deep", {{"rank0.json", snapshot_json(deep)}});
  write_program(folder / "program_out_of_memory", {training(4, 3, 6, "", false, 120)},
                Bytes{80} << 20, {training(4, 3, 6)});
  if (!large) return;
  // 80 layers with 31 activations in three steps: as many events as the step of a model of 70B.
  write_program(folder / "program_large", {training(80, 3, 31)});
  write_drawn(folder);
  const char* part = std::getenv("TIDEMARK_TEST_DRAW");  // as harness/testing/part.h has it
  if (part == nullptr || std::atoi(part) % 8 == 0)
    write_program(folder / "program_million", {training(80, 50, 28)});
  write_program(folder / "program_of_64_ranks", [] {
    std::vector<Snapshot> ranks;
    for (int rank = 0; rank < 64; ++rank) ranks.push_back(training(2 + rank % 8, 2, 5));
    return ranks;
  }());
}

void write_program_of_512_ranks(const std::filesystem::path& folder) {
  std::vector<Snapshot> ranks;
  for (int rank = 0; rank < 512; ++rank) ranks.push_back(training(1 + rank % 8, 1, 1 + rank % 13));
  write_program(folder / "program_of_512_ranks", ranks);
}

void write_snapshots(const std::filesystem::path& folder) {
  const std::pair<const char*, Snapshot> others[] = {
      {"snapshot", of_ring(training(4, 3, 6), 150)},
      {"snapshot_mapped", of_ring(training(4, 3, 6, "", true), 150)},
      {"snapshot_without_trace", of_ring(training(4, 3, 6), training(4, 3, 6).traces[0].size())}};
  for (const auto& [name, ring] : others)
    write_files(
        folder / name,
        {{"a.json", snapshot_json(ring)},
         {"report.html", snapshot_page(ring, "a.json", 10, folder / name / "report.html")}});
}

}  // namespace tidemark
