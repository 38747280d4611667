#include "reports/program/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/record/json.h"
#include "reports/program/page.h"

namespace tidemark {
namespace {

constexpr std::int64_t kKiB = 1024;

/// Allocations one behind the other: no address comes twice.
class Allocator {
 public:
  explicit Allocator(std::string prefix) : prefix_(std::move(prefix)) {
    out_.traces.emplace_back();
    out_.labelled = true;
    event(AllocatorAction::segment_alloc, 1, 0);
  }

  std::int64_t take(std::int64_t bytes, const std::string& module, std::int64_t line,
                    const std::string& node = "") {
    const std::int64_t address = next_;
    next_ += (bytes + 511) / 512 * 512;
    AllocatorEvent& made = event(AllocatorAction::alloc, address, bytes);
    made.stack = stack(line, node);
    made.module = this->module(module);
    ++now_.allocations;
    alive_[address] = bytes, active_ += bytes, peak_ = std::max(peak_, active_);
    return address;
  }
  void give(std::int64_t address) {
    event(AllocatorAction::free_requested, address, alive_.at(address));
    event(AllocatorAction::free_completed, address, alive_.at(address));
    ++now_.frees;
    active_ -= alive_.at(address);
    alive_.erase(address);
  }
  void label(std::int64_t address, MemoryKind kind, const std::string& name) {
    out_.labels.push_back({0, now_.allocations, address, kind, prefix_ + name});
  }
  void begin() { begin_ = now_; }
  void end(const std::string& name, std::int64_t step) {
    out_.phases.push_back({0, begin_, now_, name, step});
  }

  Snapshot end() {
    const std::int64_t reserved = peak_ + peak_ / 10;
    out_.traces[0][0].size = reserved;
    std::int64_t rest = reserved;
    const auto segment = [&](std::int64_t address, std::int64_t bytes, BlockState state) {
      Segment one;
      one.address = address, one.total_size = bytes;
      one.blocks = {{address, bytes, state == BlockState::inactive ? 0 : bytes, state}};
      rest -= bytes;
      out_.segments.push_back(std::move(one));
    };
    for (const auto& [address, bytes] : alive_) segment(address, bytes, BlockState::allocated);
    if (rest > 0) segment(next_, rest, BlockState::inactive);
    return std::move(out_);
  }

 private:
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
  std::int64_t next_ = std::int64_t{1} << 40, active_ = 0, peak_ = 0;
  ProgramPhase::Moment now_, begin_;
  std::map<std::int64_t, std::int64_t> alive_;
  std::map<std::pair<std::int64_t, std::string>, std::size_t> stacks_;
};

}  // namespace

Snapshot training(int layers, int steps, int each, const std::string& prefix) {
  Allocator a(prefix);
  const auto name = [](int layer) { return fmt::format("layers.{}.up", layer); };
  for (int layer = 0; layer < layers; ++layer)
    a.label(a.take(4000 * kKiB, "", 3), MemoryKind::parameters, name(layer) + ".weight");
  for (int step = 1; step <= steps; ++step) {
    std::vector<std::vector<std::int64_t>> kept(static_cast<std::size_t>(layers));
    a.begin();
    for (int layer = 0; layer < layers; ++layer)
      for (int i = 0; i < each; ++i) {
        const std::int64_t scratch = a.take(100 * kKiB, name(layer), 9);
        kept[static_cast<std::size_t>(layer)].push_back(
            a.take((1500 + 10 * i) * kKiB, name(layer), 10 + i % 5));
        a.give(scratch);
      }
    a.end("forward", step);
    a.begin();
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
    a.begin();
    if (step == 1)
      for (int layer = 0; layer < layers; ++layer)
        a.label(a.take(8000 * kKiB, "", 20), MemoryKind::optimizer_state, name(layer) + ".weight");
    for (const std::int64_t block : gradients) a.give(block);
    a.end("optimizer", step);
  }
  return a.end();
}

Report write_program(const std::filesystem::path& folder, const std::vector<Snapshot>& ranks,
                     Bytes capacity) {
  std::vector<File> files;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    files.push_back({fmt::format("rank{}.pickle", rank), pickle(ranks[rank])});
  write_files(folder, files);
  const std::vector<HighestPeak> peaks{highest_peak(folder, "lagging")};
  Report report;
  report.run.profile = "h100-80g";
  report.run.capacity_bytes = capacity;
  TrialRecord trial = program_trial({"python3", "train.py"}, Mode::known, "lagging",
                                    std::max(static_cast<int>(ranks.size()), 1));
  ProgramRecord& program = *trial.program;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ProcessRecord process;
    process.rank = static_cast<int>(rank), process.pid = 1000 + static_cast<int>(rank);
    process.ended = true;
    for (const DeviceSummary& device : analyse(ranks[rank]))
      process.devices.push_back({0, device.peak.active, device.peak.active, device.peak.reserved,
                                 device.peak.active, 0, 0});
    program.processes.push_back(std::move(process));
  }
  trial.alive = alive_at(peaks[0]);
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
      if (frame.file.ends_with(".py")) {
        frame.file = std::filesystem::absolute(folder) / "program" / "train.py";
        rank.sources.push_back({frame.file, frame.line, fmt::format("line_{}(<b>)", frame.line)});
      }
  write_program(folder / "program", ranks, Bytes{110} << 20);
  write_program(folder / "program_hostile",
                {training(3, 2, 4, "<img src=x onerror=alert(1)></script>")});
  write_program(folder / "program_without_events", {Snapshot()});
  write_program(folder / "program_without_snapshots", {});
  Snapshot first;  // whose first allocation has failed
  first.traces.push_back({{.action = AllocatorAction::oom, .address = 1024, .size = 4096}});
  first.labelled = true;
  write_program(folder / "program_without_memory", {first});
  Allocator one("");
  one.take(1024, "", 1);
  write_program(folder / "program_of_one_event", {one.end()});
  if (!large) return;
  // 80 layers with 31 activations in three steps: as many events as the step of a model of 70B.
  write_program(folder / "program_large", {training(80, 3, 31)});
  write_program(folder / "program_million", {training(80, 50, 28)});
  write_program(folder / "program_of_64_ranks", [] {
    std::vector<Snapshot> ranks;
    for (int rank = 0; rank < 64; ++rank) ranks.push_back(training(8 + rank % 16, 3, 20));
    return ranks;
  }());
}

}  // namespace tidemark
