// Records with a bound: random programs written with and without one, and read again.
#include "harness/memory/format/bound.h"

#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "harness/memory/analysis.h"
#include "harness/memory/format/condense.h"
#include "harness/memory/format/names.h"
#include "harness/memory/format/repeats.h"
#include "harness/memory/process_record.h"
#include "harness/record/file.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using recorder::put;
using recorder::put_signed;
using recorder::Tag;

constexpr std::uint64_t kWhole = 6000, kGrowth = 3000;

/// Writes what the recorder writes of a program, in its order: steps, phases, events, labels.
class Program {
 public:
  Program(const std::string& name, bool bounded)
      : path_(fs::path(testing::TempDir()) / (name + std::to_string(getpid()))) {
    fs::remove(path_);
    file_.emplace(path_);
    file_->header().magic = recorder::kMagic;
    file_->header().has_events = 1;
    repeats_.emplace(*file_);
    if (bounded) bound_.emplace(*file_, kWhole, kGrowth);
    step();
    event(AllocatorAction::segment_alloc, 0, 1 << 30);
  }
  ~Program() { fs::remove(path_); }

  void step() {
    if (step_++ > 0) {
      const std::size_t repeated = repeats_->next();
      if (bound_) bound_->next(repeated, repeats_->counts());
    }
    address_ = 0;
    std::string entry = begun(Tag::step);
    put(entry, static_cast<std::uint64_t>(step_));
    put_signed(entry, step_ * 1000);
    file_->append(entry);
    commit();
  }
  void allocate(std::int64_t address, std::int64_t bytes) {
    event(AllocatorAction::alloc, address, bytes);
  }
  void free(std::int64_t address, std::int64_t bytes) {
    event(AllocatorAction::free_requested, address, bytes);
    event(AllocatorAction::free_completed, address, bytes);
  }
  void segment(bool begins, std::int64_t address, std::int64_t bytes) {
    event(begins ? AllocatorAction::segment_alloc : AllocatorAction::segment_free, address, bytes);
  }
  void label(std::int64_t address, const std::string& kind) {
    std::string entry = begun(Tag::label);
    put_signed(entry, address - address_), address_ = address;
    put(entry, string(kind)), put(entry, string("name of " + kind));
    write(entry, false);
  }
  void phase(Tag tag, const std::string& name) {
    std::string entry = begun(tag);
    put(entry, string(name));
    write(entry, true);
  }
  Snapshot read() const { return record_snapshot(path_); }
  std::uint64_t size() const { return file_->size(); }
  std::string entries() const { return file_->read(0, file_->size()); }
  const std::map<std::int64_t, std::int64_t>& alive() const { return alive_; }
  std::int64_t events() const { return events_; }
  std::function<void()> committed = [] {};

 private:
  static std::string begun(Tag tag) { return {static_cast<char>(tag)}; }
  std::uint64_t string(const std::string& text) {
    const auto [at, fresh] = strings_.try_emplace(text, strings_.size() + 1);
    if (!fresh) return at->second;
    std::string entry = begun(Tag::string);
    recorder::put_text(entry, text);
    repeats_->keep();
    file_->append(entry);
    return at->second;
  }
  void event(AllocatorAction action, std::int64_t address, std::int64_t bytes) {
    recorder::Figures& f = file_->moment().devices[0];
    f.used = 1;
    f.active += f.unsettled, f.unsettled = 0;  // the allocator's figures are those before it
    f.active_peak = std::max(f.active_peak, f.active);
    if (action == AllocatorAction::alloc) f.unsettled = bytes, alive_[address] = bytes;
    if (action == AllocatorAction::free_completed) f.active -= bytes, alive_.erase(address);
    std::string entry = begun(Tag::event);
    put(entry, static_cast<std::uint64_t>(action));
    put(entry, 0);  // device
    put_signed(entry, address - address_), address_ = address;
    put(entry, static_cast<std::uint64_t>(bytes));
    for (int i = 0; i < 4; ++i) put(entry, 0);  // stream, stack, module, node
    ++events_;
    write(entry, true);
  }
  void write(const std::string& entry, bool timed) {
    repeats_->add(entry);
    std::string whole = entry;
    if (timed) put_signed(whole, 3);
    file_->append(whole);
    commit();
  }
  void commit() {
    file_->commit();
    committed();
  }

  fs::path path_;
  std::optional<recorder::RecordFile> file_;
  std::optional<recorder::Repeats> repeats_;
  std::optional<recorder::Bound> bound_;
  std::map<std::string, std::uint64_t> strings_;
  std::map<std::int64_t, std::int64_t> alive_;
  std::int64_t step_ = 0, address_ = 0, events_ = 0;
};

/// A training loop whose steps differ: its blocks, some of which stay for later steps or for ever.
class Loop {
 public:
  explicit Loop(unsigned seed) : random_(seed) {}

  void step(Program& program) {
    program.step();
    if (chance(5)) program.phase(Tag::phase, "range over steps");
    program.phase(Tag::phase, "forward");
    if (chance(3)) program.segment(true, std::int64_t{1} << 40, 1 << 20);
    std::vector<std::int64_t> own;
    for (std::int64_t i = pick(1, 12); i > 0; --i) own.push_back(allocate(program));
    program.phase(Tag::phase_end, "forward");
    if (chance(4)) program.phase(Tag::phase_end, "range over steps");
    for (const std::int64_t block : own)
      if (!chance(9)) free(program, block);
    while (!old_.empty() && chance(2)) free(program, *old_.begin());
    for (const std::int64_t block : own)
      if (blocks_.contains(block)) old_.insert(block);
    if (const auto segment = std::int64_t{1} << 40; chance(2) && !blocks_.contains(segment))
      program.segment(false, segment, 1 << 20), program.segment(true, segment, 1 << 20);
    // The loop may end with its highest allocation.
    if (chance(6)) old_.insert(allocate(program));
  }

 private:
  bool chance(int of) { return pick(1, of) == 1; }
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  std::int64_t allocate(Program& program) {
    std::int64_t address = 0;
    while (blocks_.contains(address)) address += 1 << 16;
    const std::int64_t bytes = 512 * pick(1, 128);
    program.allocate(address, bytes);
    if (chance(2))
      program.label(address + 8, words(MemoryKind())[static_cast<std::size_t>(pick(0, 2))]);
    blocks_[address] = bytes;
    return address;
  }
  void free(Program& program, std::int64_t address) {
    program.free(address, blocks_[address]);
    blocks_.erase(address), old_.erase(address);
  }

  std::mt19937 random_;
  std::map<std::int64_t, std::int64_t> blocks_;
  std::set<std::int64_t> old_;
};

std::map<std::int64_t, std::int64_t> blocks_of(const Snapshot& snapshot) {
  std::map<std::int64_t, std::int64_t> out;
  for (const auto& trace : snapshot.traces)
    for (const AllocatorEvent& event : trace) {
      if (event.action == AllocatorAction::alloc) out[event.address] = event.size;
      if (event.action == AllocatorAction::free_completed) out.erase(event.address);
    }
  return out;
}

std::vector<Part> end_of(const Snapshot& snapshot) { return analyse(snapshot).at(0).left; }

std::string segments_of(const Snapshot& snapshot) {
  std::string out;
  for (const Segment& segment : snapshot.segments) {
    out += std::to_string(segment.address) + "+" + std::to_string(segment.total_size) + ":";
    for (const MemoryBlock& block : segment.blocks) out += " " + std::to_string(block.size);
    out += "\n";
  }
  return out;
}

class Bounded : public testing::TestWithParam<unsigned> {};

TEST_P(Bounded, HasTheSameEndAndTheSamePeak) {
  Program all("all", false), some("some", true);
  Loop one(GetParam()), same(GetParam());
  std::uint64_t most = 0;
  for (int i = 0; i < 400; ++i) {
    one.step(all), same.step(some);
    most = std::max(most, some.size());
  }
  const Snapshot whole = all.read(), kept = some.read();
  EXPECT_EQ(blocks_of(kept), some.alive());
  EXPECT_EQ(segments_of(kept), segments_of(whole));
  const auto a = analyse(whole).at(0), b = analyse(kept).at(0);
  EXPECT_EQ(b.peak.active, a.peak.active);
  EXPECT_EQ(b.end.reserved, a.end.reserved);
  ASSERT_EQ(end_of(kept).size(), end_of(whole).size()) << "kinds of what is left, by their labels";
  for (std::size_t i = 0; i < end_of(whole).size(); ++i) {
    EXPECT_EQ(end_of(kept)[i].kind, end_of(whole)[i].kind);
    EXPECT_EQ(end_of(kept)[i].bytes, end_of(whole)[i].bytes);
  }
  ASSERT_FALSE(kept.skipped.empty());
  std::int64_t events = std::ssize(kept.traces[0]);
  for (const SkippedSteps& gone : kept.skipped) {
    events += gone.events;
    EXPECT_LE(gone.first, gone.last);
    EXPECT_EQ(gone.count, gone.last - gone.first + 1);
  }
  EXPECT_EQ(events, some.events()) << "each is kept or counted";
  EXPECT_LT(most, all.size() / 3);
}

TEST_P(Bounded, AfterAnyEntryHasWhatIsAlive) {
  Program program("any", true);
  Loop loop(GetParam() + 1000);
  int moments = 0;
  program.committed = [&] {
    if (++moments % 31 == 0)
      ASSERT_EQ(blocks_of(program.read()), program.alive()) << "moment " << moments;
  };
  for (int i = 0; i < 120; ++i) loop.step(program);
}

INSTANTIATE_TEST_SUITE_P(Random, Bounded, testing::Range(1u, 9u));

// Steps that repeat are counted, those between them differ.
TEST(Bound, TakesOutRepetitionsToo) {
  Program all("repeats_all", false), some("repeats_some", true);
  for (int round = 0; round < 300; ++round)
    for (Program* program : {&all, &some}) {
      for (int i = 0; i < 20; ++i) {
        program->step();
        program->allocate(0, 4096), program->free(0, 4096);
      }
      program->step();
      const std::int64_t bytes = 512 * (1 + round % 97);
      program->allocate(1 << 20, bytes), program->free(1 << 20, bytes);
    }
  EXPECT_LT(some.size(), 3 * kWhole);
  EXPECT_GT(all.size(), 5 * kWhole);
  const Snapshot kept = some.read();
  EXPECT_EQ(blocks_of(kept), some.alive());
  std::int64_t events = std::ssize(kept.traces[0]);
  for (const SkippedSteps& gone : kept.skipped) events += gone.events;
  for (const RepeatedSteps& again : kept.repeats) {
    EXPECT_EQ(again.first, again.last);
    events += again.count * 3;
  }
  EXPECT_EQ(events, some.events());
}

// A leak: each step has a new highest peak, of which the last is kept.
TEST(Bound, OfALeakKeepsTheLastStepsAndEveryBlock) {
  Program program("leak", true);
  for (int i = 0; i < 2000; ++i) {
    program.step();
    for (int k = 0; k < 20; ++k)
      program.allocate(0, 65536 + 512 * k), program.free(0, 65536 + 512 * k);
    program.allocate((1 << 20) + 1024 * i, 1024);
  }
  const Snapshot kept = program.read();
  EXPECT_EQ(blocks_of(kept), program.alive());
  ASSERT_EQ(kept.skipped.size(), 1u);
  EXPECT_EQ(std::ssize(kept.left_steps), kept.skipped[0].count) << "each has left a block";
  EXPECT_EQ(kept.left_steps.back().step, kept.skipped[0].last);
  EXPECT_LE(kept.skipped[0].last, 2001 - 8);
  EXPECT_EQ(analyse(kept).at(0).peak.active, 1999 * 1024 + 65536 + 512 * 19);
  EXPECT_LT(program.size(), kWhole + kGrowth * 8 + 2000 * 16);
}

// A process may be killed at any instruction while its steps are written again.
TEST(Bound, AtEveryInstructionTheRecordIsWhole) {
  const fs::path path = fs::path(testing::TempDir()) / ("stepped" + std::to_string(getpid()));
  fs::remove(path);
  Program source("source", false);
  for (int i = 0; i < 40; ++i) {
    source.step();
    for (int k = 0; k < 9; ++k) source.allocate(0, 4096), source.free(0, 4096);
    source.allocate((1 << 20) + 512 * i, 512);
  }
  recorder::RecordFile file(path);
  file.header().magic = recorder::kMagic;
  file.header().has_events = 1;
  file.append(source.entries());
  file.commit();
  const std::string shorter = recorder::condensed(source.entries());
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    _exit(file.rewrite(0, shorter) ? 0 : 1);
  }
  std::string before;
  int changes = 0, status = 0, instructions = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    ++instructions;
    if (std::string now = read_bytes(path); now != before) {
      ++changes;
      ASSERT_EQ(blocks_of(record_snapshot(path)), source.alive()) << "after " << changes;
      before = std::move(now);
    }
    ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GT(changes, 20) << "of " << instructions << " instructions";
  EXPECT_EQ(record_snapshot(path).skipped.at(0).count, 41);
  fs::remove(path);
}

}  // namespace
}  // namespace tidemark
