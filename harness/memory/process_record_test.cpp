// Records of a process, written by the recorder's own parts and read again: repetitions, and files
// that end anywhere.
#include "harness/memory/process_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "harness/memory/format/names.h"
#include "harness/memory/format/repeats.h"
#include "harness/memory/highest_peak.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/testing/made_record.h"
#include "harness/record/file.h"
#include "harness/testing/refusal.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using recorder::put;
using recorder::put_signed;
using recorder::Tag;
using testing::HasSubstr;

/// Steps of a program: each has events, whose addresses and sizes a text of one letter gives.
class Written {
 public:
  Written() : path_(fs::path(testing::TempDir()) / ("record" + std::to_string(getpid()))) {
    fs::remove(path_);
    file_.emplace(path_);
    file_->header().magic = recorder::kMagic;
    file_->header().has_events = 1;
    repeats_.emplace(*file_);
  }
  ~Written() { fs::remove(path_); }

  /// An allocation of so many KiB, and its frees.
  void step(const std::string& letters) {
    if (steps_++ > 0) repeats_->next();
    std::string entry{static_cast<char>(Tag::step)};
    put(entry, static_cast<std::uint64_t>(steps_));
    put_signed(entry, steps_ * 1000);
    append(entry);
    std::int64_t before = 0;
    for (const char letter : letters)
      for (const AllocatorAction action : {AllocatorAction::alloc, AllocatorAction::free_requested,
                                           AllocatorAction::free_completed}) {
        std::string event{static_cast<char>(Tag::event)};
        put(event, static_cast<std::uint64_t>(action));
        put(event, 0);  // device
        const std::int64_t address = letter * (std::int64_t{1} << 20);
        put_signed(event, address - before);
        before = address;
        put(event, static_cast<std::uint64_t>(letter) * 1024);
        for (int i = 0; i < 4; ++i) put(event, 0);  // stream, stack, module, node
        repeats_->add(event);
        put_signed(event, 7);
        append(event);
        ++written_;
      }
  }
  /// The letters of all events in the file.
  std::string events() const {
    std::string out;
    const Snapshot snapshot = record_snapshot(path_);
    for (const AllocatorEvent& event : snapshot.traces.at(0))
      if (event.action == AllocatorAction::alloc) out += static_cast<char>(event.size / 1024);
    return out;
  }
  const fs::path& path() const { return path_; }
  recorder::RecordFile& file() { return *file_; }
  void keep() { repeats_->keep(); }
  /// Events until now.
  std::size_t written() const { return written_; }
  /// Called before each entry: a process may end there.
  std::function<void()> may_end = [] {};

 private:
  void append(const std::string& entry) {
    may_end();
    file_->append(entry);
    file_->commit();
  }

  fs::path path_;
  std::optional<recorder::RecordFile> file_;
  std::optional<recorder::Repeats> repeats_;
  std::int64_t steps_ = 0;
  std::size_t written_ = 0;
};

std::string text_of(const std::vector<RepeatedSteps>& repeats) {
  std::string out;
  for (const RepeatedSteps& one : repeats)
    out += std::to_string(one.first) + "-" + std::to_string(one.last) + "x" +
           std::to_string(one.count) + " ";
  return out;
}

TEST(ProcessRecord, CountsStepsThatComeAgain) {
  Written record;
  record.step("abc");
  for (int i = 0; i < 100000; ++i) record.step("ab");
  record.step("abd");
  EXPECT_EQ("abcabababd", record.events());
  EXPECT_EQ("3-3x99998 ", text_of(record_snapshot(record.path()).repeats));
  EXPECT_LT(record.file().size(), 500u) << "events of four steps, 30 of 14 bytes at most";
}

TEST(ProcessRecord, CountsPeriodsOfSeveralSteps) {
  for (const std::size_t period : {2u, 3u, 8u}) {
    Written record;
    const std::string letters = std::string("abcdefgh").substr(0, period);
    for (int i = 0; i < 50; ++i)
      for (const char letter : letters) record.step({letter});
    record.step("a");
    record.step("z");
    record.step("y");
    // The step that ends last is in the file until the next one begins.
    EXPECT_EQ(letters + letters + "azy", record.events()) << period;
    EXPECT_EQ(std::to_string(period + 1) + "-" + std::to_string(2 * period) + "x48 ",
              text_of(record_snapshot(record.path()).repeats));
  }
}

TEST(ProcessRecord, KeepsAStepThatDefinesANameAndOneThatDiffers) {
  Written record;
  record.step("a");
  record.step("a");
  record.keep();
  record.step("b");
  record.step("c");
  EXPECT_EQ("aabc", record.events());
  EXPECT_EQ("", text_of(record_snapshot(record.path()).repeats));
}

// A process may be killed before each entry: what is in the file then is all that was committed,
// whether it is counted or written.
TEST(ProcessRecord, WhenAProcessIsKilledEveryCommittedEventIsThere) {
  for (const std::size_t period : {1u, 3u}) {
    Written record;
    std::size_t moments = 0;
    record.may_end = [&] {
      const Snapshot snapshot = record_snapshot(record.path());
      std::size_t events = 0;
      for (const auto& trace : snapshot.traces) events += trace.size();
      for (const RepeatedSteps& one : snapshot.repeats)
        events += static_cast<std::size_t>((one.last - one.first + 1) * one.count) * 6;
      EXPECT_EQ(record.written(), events) << "after " << moments << " entries";
      ++moments;
    };
    record.step("xy");
    for (int i = 0; i < 5; ++i)
      for (std::size_t k = 0; k < period; ++k)
        record.step({static_cast<char>('a' + k), static_cast<char>('b' + k)});
    record.step("yx");
    for (int i = 0; i < 4; ++i) record.step("zx");
    EXPECT_GT(moments, 50u);
  }
}

TEST(ProcessRecord, ActionsHavePyTorchsNumbers) {
  Written record;
  record.step("a");
  constexpr std::uint64_t kSnapshot = 7, kOutOfMemory = 8;  // TraceEntry::Action of PyTorch
  for (const std::uint64_t action : {kSnapshot, kOutOfMemory}) {
    std::string event{static_cast<char>(Tag::event)};
    put(event, action);
    put(event, 0);  // device
    put_signed(event, 0);
    put(event, 4096);
    if (action == kOutOfMemory) put(event, 1024);  // free on the device
    for (int i = 0; i < 4; ++i) put(event, 0);     // stream, stack, module, node
    put_signed(event, 7);
    record.file().append(event);
    record.file().commit();
  }
  const Snapshot snapshot = record_snapshot(record.path());
  ASSERT_EQ(snapshot.traces.at(0).size(), 4u);  // three of the step
  const AllocatorEvent& last = snapshot.traces[0].back();
  EXPECT_EQ(last.action, AllocatorAction::oom);
  EXPECT_EQ(last.size, 4096);
  EXPECT_EQ(last.address, 1024);
}

TEST(ProcessRecord, CutAnywhereIsAPrefixOrAnErrorOfOneLine) {
  Written record;
  record.step("abcd");
  for (int i = 0; i < 3; ++i) record.step("ef");
  record.step("gh");
  const std::string whole = record.events();
  const std::string bytes = read_bytes(record.path());
  const std::size_t size = recorder::kHeader + record.file().size();
  const fs::path cut = record.path().string() + ".cut";
  std::size_t prefixes = 0, refused = 0;
  for (std::size_t length = 0; length <= size; length += length < recorder::kHeader ? 61 : 1) {
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, length);
    std::string events;
    const std::string error = refusal<SnapshotError>([&] {
      const Snapshot snapshot = record_snapshot(cut);
      for (const auto& trace : snapshot.traces)
        for (const AllocatorEvent& event : trace)
          if (event.action == AllocatorAction::alloc)
            events += static_cast<char>(event.size / 1024);
    });
    const bool read = error == kNothingRefused;
    EXPECT_EQ(read ? whole.substr(0, events.size()) : "", events);
    (read ? prefixes : refused) += 1;
  }
  fs::remove(cut);
  EXPECT_GT(prefixes, 20u);
  EXPECT_GT(refused, 100u);
}

TEST(ProcessRecord, OtherFilesAreRefused) {
  const fs::path path = fs::path(testing::TempDir()) / "no.record";
  std::ofstream(path) << std::string(recorder::kHeader, 'x');
  EXPECT_THAT(refusal<SnapshotError>([&] { record_figures(path); }),
              HasSubstr("no.record: is not a record of tidemark exec"));
  fs::remove(path);
  EXPECT_THAT(refusal<SnapshotError>([&] { record_figures(path); }), HasSubstr("cannot be read"));
}

// Figures that no program can have are none to compute with.
TEST(ProcessRecord, FiguresThatCannotBeAreRefused) {
  constexpr std::size_t kCount = sizeof(recorder::Figures) / sizeof(std::int64_t);
  for (const std::int64_t figure : {INT64_MIN, INT64_MAX, (std::int64_t{1} << 56) + 1})
    for (std::size_t i = 0; i < kCount; ++i) {
      Written record;
      record.step("a");
      const std::size_t device = (i * 7 + 3) % recorder::kDevices;
      auto& moment = record.file().header().moments[record.file().header().now & 1U];
      reinterpret_cast<std::int64_t*>(&moment.devices[device])[i] = figure;
      const std::string of = fmt::format("is damaged: cuda:{} has a figure of {}", device, figure);
      EXPECT_THAT(refusal([&] { record_figures(record.path()); }), HasSubstr(of));
      EXPECT_THAT(refusal([&] { record_snapshot(record.path()); }), HasSubstr(of));
    }
}

TEST(ProcessRecord, AKindOfANewerVersionIsRefusedByName) {
  MadeRecord made;
  made.event(AllocatorAction::segment_alloc, 1 << 21, 1 << 21, 1);
  made.event(AllocatorAction::alloc, 1 << 21, 4096, 2);
  made.label(1 << 21, MemoryKind::inputs, "x");
  std::string bytes = made.bytes();
  const auto read = [&] { return record_snapshot(RecordBytes{bytes}, "f"); };
  ASSERT_EQ(read().labels.size(), 1u);
  EXPECT_EQ(read().labels[0].kind, MemoryKind::inputs);
  EXPECT_EQ(read().traces[0][1].block, 4096);
  bytes.replace(bytes.find("inputs"), 6, "wishes");
  EXPECT_THAT(refusal(read), testing::AllOf(testing::StartsWith("f: byte "),
                                            testing::HasSubstr("'wishes' is no kind of memory")));
}

/// A process that allocates, in a step or without a phase.
void write_process(const fs::path& file, bool has_backward) {
  MadeRecord record;
  record.step(1);
  record.event(AllocatorAction::segment_alloc, 1 << 20, 2 << 20, 5);
  if (has_backward) record.phase("backward", 10);
  record.event(AllocatorAction::alloc, 1 << 20, has_backward ? 2048 : 1024, 20);
  if (has_backward) {
    record.phase_end("backward", 30);
    record.phase("optimizer", 40);
    record.phase_end("optimizer", 50);
  }
  record.event(AllocatorAction::alloc, 2 << 20, 512, 60);
  std::ofstream(file, std::ios::binary) << record.bytes();
}

// A rank that only loads a checkpoint knows nothing of backwards, and the others do.
TEST(HighestPeak, AWasteIsUnknownOnlyWhereNoProcessKnowsIt) {
  const fs::path folder = fs::path(testing::TempDir()) / ("wastes" + std::to_string(getpid()));
  for (int with = 0; with <= 3; ++with) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (int rank = 0; rank < 3; ++rank)
      write_process(folder / fmt::format("rank{}.record", rank), rank < with);
    const HighestPeak peak = highest_peak(folder, "");
    EXPECT_TRUE(peak.unreadable.empty());
    std::vector<Waste> of_backwards = peak.device.wastes;
    std::erase_if(of_backwards, [](const Waste& one) { return !one.name.starts_with("activ"); });
    ASSERT_EQ(of_backwards.size(), 1u) << with;
    EXPECT_EQ(of_backwards[0].bytes.has_value(), with > 0) << with;
  }
  fs::remove_all(folder);
}

TEST(HighestPeak, OfEqualRanksIsThatOfTheFirst) {
  const fs::path folder = fs::path(testing::TempDir()) / ("ranks" + std::to_string(getpid()));
  fs::create_directories(folder);
  for (int rank = 2; rank < 12; ++rank)
    write_process(folder / fmt::format("rank{}.record", rank), true);
  EXPECT_EQ(highest_peak(folder, "").file.stem(), "rank2") << "and not rank10";
  fs::remove_all(folder);
}

// A cache that fills, and forwards that replay graphs.
TEST(HighestPeak, ForwardsThatAllocateNothingAreStepsWithoutGrowth) {
  const fs::path folder = fs::path(testing::TempDir()) / ("replays" + std::to_string(getpid()));
  for (const int replays : {0, 1, 12, 40}) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    MadeRecord record;
    record.step(1);
    Ns time = 0;
    record.event(AllocatorAction::segment_alloc, 1 << 20, 12 << 20, ++time);
    for (int i = 0; i < 12 + replays; ++i) {
      record.phase("forward", ++time);
      if (i < 12) record.event(AllocatorAction::alloc, (i + 1) << 20, 1 << 20, ++time);
      record.phase_end("forward", ++time);
    }
    std::ofstream(folder / "rank0.record", std::ios::binary) << record.bytes();
    EXPECT_EQ(highest_peak(folder, "").growths.size(), replays > 1 ? 0u : 1u) << replays;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tidemark
