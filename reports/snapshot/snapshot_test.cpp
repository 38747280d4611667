// Reading and writing PyTorch's memory snapshots, what they say, and files that are none.
#include "harness/memory/snapshot.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/memory/analysis.h"
#include "harness/testing/refusal.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kBase = 0x7f0000000000;

/// A segment of 1000: 300 for a, 200 pending for b, 500 free; c (400) was freed before.
Snapshot small() {
  Snapshot s;
  s.frames = {{"at::empty", "/x/torch/lib/libtorch.so", 0},
              {"a", "/y/train.py", 7},
              {"b", "/y/train.py", 9}};
  s.stacks = {{}, {0, 1}, {0, 2}};
  Segment segment;
  segment.address = kBase, segment.total_size = 1024, segment.stream = 5;
  segment.blocks = {{kBase, 512, 300, BlockState::allocated, 1},
                    {kBase + 512, 256, 200, BlockState::pending_free, 2},
                    {kBase + 768, 256, 0, BlockState::inactive, 0}};
  s.segments = {segment};
  s.traces = {{{AllocatorAction::segment_alloc, kBase, 1024, 5, 10000, 0},
               {AllocatorAction::alloc, kBase + 512, 400, 5, 20000, 2},
               {AllocatorAction::alloc, kBase, 300, 5, 30000, 1},
               {AllocatorAction::free_requested, kBase + 512, 400, 5, 40000, 2},
               {AllocatorAction::free_completed, kBase + 512, 400, 5, 50000, 0},
               {AllocatorAction::alloc, kBase + 512, 200, 5, 60000, 2},
               {AllocatorAction::free_requested, kBase + 512, 200, 5, 70000, 2},
               {AllocatorAction::oom, 100, 4096, 5, 80000, 0},
               {AllocatorAction::snapshot, 0, 0, 0, 90000, 0}}};
  s.settings = {{"expandable_segments", "False"}};
  return s;
}

std::string why(const std::string& bytes) {
  const std::string message = refusal<SnapshotError>([&] { parse_snapshot(bytes, "f"); });
  if (message != kNothingRefused) {
    EXPECT_THAT(message, testing::StartsWith("f: "));
  }
  return message;
}

TEST(Snapshots, AreWrittenInKnownProtocolsAlone) {
  EXPECT_THROW(pickle(small(), 5), SnapshotError);
}

/// A pickle of a snapshot without segments, whose list of devices is `traces`.
std::string pickled(const std::string& traces) {
  return std::string("\x80\x04}(\x8c\x08segments]\x8c\x0d") + "device_traces" + traces + "u.";
}

/// A dictionary of an event of so many bytes.
std::string event_of(const std::string& action, char size) {
  return std::string("}(\x8c\x06") + "action\x8c" + static_cast<char>(action.size()) + action +
         "\x8c\x04" + "addrK\x07\x8c\x04sizeK" + size + "u";
}

TEST(Snapshots, EventsMayBeSharedAndListedInAnyWay) {
  const auto sizes = [](const std::string& traces) {
    std::vector<std::vector<std::int64_t>> out;
    for (const auto& trace : parse_snapshot(pickled(traces), "f").traces) {
      out.emplace_back();
      for (const AllocatorEvent& event : trace) out.back().push_back(event.size);
    }
    return out;
  };
  const std::string a = event_of("alloc", 3), b = event_of("alloc", 5);
  using Sizes = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(sizes("](](" + a + b + "e](" + b + "ee"), (Sizes{{3, 5}, {5}}));
  EXPECT_EQ(sizes("]]" + a + "a" + b + "aa"), (Sizes{{3, 5}}));
  EXPECT_EQ(sizes("](](" + a + "e(" + b + "ee"), (Sizes{{3, 5}})) << "in two batches";
  EXPECT_EQ(sizes("](](" + a + "q\1h\1h\1e](h\1ee"), (Sizes{{3, 3, 3}, {3}}));
  EXPECT_EQ(sizes("](](" + a + "eq\1h\1h\1e"), (Sizes{{3}, {3}, {3}})) << "a list three times";
  EXPECT_EQ(sizes("]((" + a + b + "t]e"), (Sizes{{3, 5}, {}})) << "a tuple";
  EXPECT_EQ(sizes("](](" + event_of("workspace_snapshot", 1) + a + "ee"), (Sizes{{3}}));
  EXPECT_EQ(sizes("](](" + event_of("workspace_snapshot", 1) + "q\1h\1" + a + "ee"), (Sizes{{3}}));
  EXPECT_THAT(why(pickled("](](" + a + "}(\x8c\x06" + "action\x8c\x05" + "allocuee")),
              HasSubstr("f: device_traces[0][1]: has no 'addr'"));
  EXPECT_THAT(why(pickled("](](" + a + "e](NK\1ee")),
              HasSubstr("f: device_traces[1][0]: is None, not a dictionary"));
  EXPECT_THAT(why(pickled("](](" + a + "q\1eh\1e")),
              HasSubstr("f: device_traces[1]: is an event, not a list"));
}

TEST(Snapshots, EventsOfJsonAreTakenAtTheirPlace) {
  const auto text = [](const std::string& traces) {
    return R"({"segments": [], "device_traces": )" + traces + "}";
  };
  const std::string event = R"({"action": "alloc", "addr": 7, "size": 3, "frames": [)"
                            R"({"name": "f", "filename": "a.py", "line": 1}]})";
  const Snapshot read = parse_snapshot(text("[[" + event + "," + event + "],[]]"), "f");
  ASSERT_EQ(read.traces.size(), 2U);
  EXPECT_EQ(read.traces[0].size(), 2U);
  EXPECT_EQ(read.stacks.size(), 2U) << "equal stacks are one";
  EXPECT_THAT(why(text("[[" + event + R"(,{"action": "alloc"}]])")),
              HasSubstr("device_traces[0][1]: has no 'addr'"));
  EXPECT_THAT(why(text("[[],[3]]")), HasSubstr("device_traces[1][0]: is an integer"));
  EXPECT_THAT(why(text("{\"a\": [" + event + "]}")), HasSubstr("is a dictionary, not a list"));
}

TEST(Snapshots, ThePeakAndWhatWasAliveThere) {
  const auto devices = analyse(small());
  ASSERT_EQ(devices.size(), 1u);
  const DeviceSummary& d = devices[0];
  EXPECT_EQ(d.peak.active, 700);
  EXPECT_EQ(d.peak.allocated, 700);
  EXPECT_EQ(d.peak.reserved, 1024);
  EXPECT_EQ(d.peak_event, 3u);
  EXPECT_EQ(d.begin.active, 0);
  EXPECT_EQ(d.begin.reserved, 0);
  EXPECT_EQ(d.end.allocated, 300);
  EXPECT_EQ(d.end.active, 500);
  EXPECT_EQ(d.ooms, 1);
  EXPECT_THAT(
      oom_text(*d.oom),
      HasSubstr("wanted 4 KiB and the device had 100 bytes free beside the allocator's 1 KiB: 300 "
                "bytes in use, 200 bytes freed but held for another stream, 524 bytes in gaps and "
                "roundings; at least 3.2 KiB are lacking"));
  EXPECT_FALSE(d.oom->at_peak) << "another block was there";
  ASSERT_GE(d.sites.size(), 2u);
  EXPECT_EQ(d.sites[0].site, "b train.py:9");
  EXPECT_EQ(d.sites[0].bytes, 400);
  EXPECT_EQ(d.sites[0].mean_us(), 30);
  EXPECT_EQ(d.sites[1].site, "a train.py:7");
  ASSERT_EQ(d.pending.size(), 1u);
  EXPECT_EQ(d.pending[0].size, 200);
  EXPECT_EQ(d.pending[0].waiting_us, 20);
  EXPECT_EQ(d.pending[0].stream, 5);
  EXPECT_EQ(d.fragmentation.free_in_used, 256);
  EXPECT_EQ(d.fragmentation.requested, 500);
  EXPECT_EQ(d.fragmentation.pending, 256);
  const Snapshot s = small();
  const std::string text = snapshot_text({"f", s}, 10);
  EXPECT_THAT(
      text, HasSubstr("peak: allocated 700, active 700, reserved 1,024 bytes after event 3 of 9"));
  EXPECT_THAT(text, HasSubstr("400 bytes (57.1%) in 1 x 400: b train.py:9, lives 30 us"));
  EXPECT_THAT(text, HasSubstr("pending frees at the end: 1, 200 bytes"));
  const auto json = nlohmann::json::parse(snapshot_summary_json({"f", s}));
  EXPECT_EQ(json["devices"][0]["peak"]["active"], 700);
}

TEST(Snapshots, LabelsAreReadAndWrongOnesAreOneLine) {
  const auto with = [](const std::string& labels) {
    return "{\"segments\":[],\"device_traces\":[[{\"action\":\"alloc\",\"addr\":512,\"size\":8,"
           "\"user_metadata\":\"head\"}]],\"tidemark_labels\":" +
           labels + "}";
  };
  const Snapshot s = parse_snapshot(with("[[0,1,512,\"gradients\",\"a.b\"]]"), "f");
  ASSERT_EQ(s.labels.size(), 1u);
  EXPECT_EQ(s.labels[0].name, "a.b");
  EXPECT_EQ(s.modules.at(s.traces[0][0].module), "head");
  EXPECT_THAT(why(with("7")), HasSubstr("tidemark_labels: is an integer, not a list"));
  EXPECT_THAT(why(with("[[0,1,512,\"gradients\"]]")), HasSubstr("tidemark_labels[0]: is not"));
  EXPECT_THAT(why(with("[[0,1,512,\"holograms\",\"x\"]]")),
              HasSubstr("tidemark_labels[0]: 'holograms' is no kind of memory that this version"));
  EXPECT_THAT(why(with("[[0,\"1\",512,\"x\",\"y\"]]")),
              HasSubstr("tidemark_labels[0]: is not a device"));
}

TEST(Snapshots, GathersAreReadAndWrongOnesAreOneLine) {
  const auto with = [](const std::string& gathers) {
    return "{\"segments\":[],\"device_traces\":[],\"tidemark_gathers\":" + gathers + "}";
  };
  const Snapshot s = parse_snapshot(with("[[0,7,2048,512,64],[0,5,4096,512,32]]"), "f");
  ASSERT_EQ(s.gathers.size(), 2u);
  EXPECT_EQ(s.gathers[0].output, 4096) << "by the number of allocations";
  EXPECT_EQ(s.gathers[1].shard_bytes, 64);
  EXPECT_THAT(why(with("[[0,1,512,2]]")), HasSubstr("tidemark_gathers[0]: is not"));
  EXPECT_THAT(why(with("[[0,1,512,2,-1]]")), HasSubstr("a shard of -1 bytes"));
}

TEST(Snapshots, HaveTheListsOfExecAsRows) {
  Snapshot made;
  made.labelled = true;
  made.phases = {{0, {1, 2}, {3, 4}, "forward", 5}};
  made.repeats = {{1, 2, 3}};
  made.skipped = {{0, 1, 2, 3, 4, {5, 6}}};
  made.left_steps = {{0, 1, {2, 3}}};
  const std::string text = snapshot_json(made);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["tidemark_phases"].dump(), "[[0,1,2,3,4,\"forward\",5]]");
  EXPECT_EQ(json["tidemark_repeats"].dump(), "[[1,2,3]]");
  EXPECT_EQ(json["tidemark_skipped"].dump(), "[[0,1,2,3,4,5,6]]");
  EXPECT_EQ(json["tidemark_left_steps"].dump(), "[[0,1,2,3]]");
  EXPECT_EQ(snapshot_json(parse_snapshot(text, "x")), text);
}

TEST(Snapshots, ATraceThatBeganInTheMiddle) {
  Snapshot s = small();
  s.traces[0].erase(s.traces[0].begin(), s.traces[0].begin() + 3);
  const DeviceSummary d = analyse(s)[0];
  EXPECT_EQ(d.begin.active, 700);
  EXPECT_EQ(d.peak.active, 700);
  EXPECT_EQ(d.peak_event, 0u);
  std::int64_t sum = 0;
  for (const Site& one : d.sites) sum += one.bytes;
  EXPECT_EQ(sum, 700) << "what was there is known from its free and from the blocks";
  s.traces.clear();
  const DeviceSummary none = analyse(s)[0];
  EXPECT_EQ(none.peak.active, 500);
  EXPECT_EQ(none.pending.size(), 1u);
}

TEST(Snapshots, ThePeakIsOfWhatIsActiveAndAFreedAddressStartsAnew) {
  Snapshot s;
  s.traces = {{{AllocatorAction::alloc, 64, 100, 0, 1000, 0},
               {AllocatorAction::free_requested, 64, 100, 0, 2000, 0},
               {AllocatorAction::alloc, 512, 50, 0, 3000, 0},
               {AllocatorAction::free_completed, 64, 100, 0, 4000, 0},
               {AllocatorAction::alloc, 64, 30, 0, 5000, 0}}};
  Segment segment;
  segment.address = 0, segment.total_size = 1024;
  segment.blocks = {{0, 64, 0, BlockState::inactive, 0},
                    {64, 448, 30, BlockState::allocated, 0},
                    {512, 512, 50, BlockState::allocated, 0}};
  s.segments = {segment};
  const DeviceSummary d = analyse(s)[0];
  EXPECT_EQ(d.peak.active, 150);
  EXPECT_EQ(d.peak.allocated, 50) << "the 100 wait for their stream";
  EXPECT_EQ(d.peak_event, 3u);
  EXPECT_TRUE(d.pending.empty());
}

TEST(Snapshots, TwoDifferBySiteAndSize) {
  const Snapshot a = small();
  Snapshot b = small();
  b.traces[0].insert(b.traces[0].begin() + 3,
                     {{AllocatorAction::alloc, kBase + 4096, 5000, 5, 35000, 1},
                      {AllocatorAction::free_requested, kBase + 4096, 5000, 5, 36000, 1},
                      {AllocatorAction::free_completed, kBase + 4096, 5000, 5, 36000, 1}});
  const auto changes = differ(a, b);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].site, "a train.py:7");
  EXPECT_EQ(changes[0].sizes_after.at(5000).bytes, 5000);
  EXPECT_EQ(changes[0].after.bytes, 5300);
  EXPECT_TRUE(differ(a, a).empty());
  EXPECT_THAT(difference_text({"a", a}, {"b", b}, 9),
              AllOf(HasSubstr("700 -> 5,700 bytes (+5,000)"),
                    HasSubstr("300 -> 5,300), 1 x 300 -> 1 x 5,000 + 1 x 300: a train.py:7")));
  EXPECT_THAT(difference_text({"a", a}, {"a", a}, 9), HasSubstr("0 sites differ"));
  Snapshot longer = a;
  longer.traces[0][4].time = 55000;
  EXPECT_TRUE(differ(a, longer).empty()) << "the host's clock is no difference";
  EXPECT_THAT(difference_json({"a", a}, {"b", b}), HasSubstr("\"bytes_at_peak\": 5000"));
}

TEST(Snapshots, PerfettosTraceOpensAndClosesEverySlice) {
  const auto trace = nlohmann::json::parse(perfetto(small()));
  std::map<std::string, int> open;
  std::int64_t active = -1;
  for (const auto& e : trace["traceEvents"]) {
    if (e["ph"] == "b") ++open[e["id"]];
    if (e["ph"] == "e") --open[e["id"]];
    if (e["ph"] == "C" && e["name"] == "active") active = e["args"]["bytes"];
  }
  EXPECT_EQ(open.size(), 3u);
  for (const auto& [id, count] : open) EXPECT_EQ(count, 0) << id;
  EXPECT_EQ(active, 500);
}

TEST(Snapshots, NoOpcodeThatRunsCode) {
  const std::string head("\x80\x04", 2);
  const std::pair<std::string, const char*> cases[] = {
      {head + "cos\nsystem\n(X\x02\0\0\0lstR.", "GLOBAL (os system) would run code"},
      {head + "\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL would run code"},
      {head + ")R.", "REDUCE"},
      {head + "}b.", "BUILD"},
      {head + "(ios\nsystem\n.", "INST"},
      {head + "(o.", "OBJ"},
      {head + ")\x81.", "NEWOBJ"},
      {head + "Pid\n.", "PERSID"},
      {head + "\x82\x01.", "EXT"},
      {head + "\x96.", "unexpected pickle opcode 0x96"},
      {head + "Nq\xff", "cut off"},
      {head + "h\x05.", "recalls value 5"},
      {head + "].extra", "has no 'segments'"},
      {head + ".", "takes a value where none is"},
      {head + "NN.", "values left over"},
      {head + "e.", "mark where none is"},
      {head + "N(Ne.", "adds to None, not to a list"},
      {head + "}(Nu.", "a key has no value"},
      {head + "\x8a\xff" + std::string(300, 'x'), "more than 64 bits"},
      {head + std::string(1001, '('), "nested more than 1,000 deep"},
      {head + "\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "cut off"},
      {head + "N.", "is None, not a dictionary"},
      {std::string("\x80\x07", 2) + "N.", "protocol 7"},
      {"(dp0\n.", "is neither a pickle of protocol 2"},
      {"", "is empty"},
      {"x", "is neither a pickle"},
      {"{\"segments\": [", "not JSON after byte"},
      {"{\"segments\": 3}", "segments: is an integer, not a list"},
      {std::string(5000, '['), "nested more than"}};
  for (const auto& [bytes, says] : cases) {
    const std::string message = why(bytes);
    if (std::string(says) == "has no 'segments'") continue;  // a list of no segments is one
    EXPECT_THAT(message, HasSubstr(says));
  }
}

TEST(Snapshots, WhatDoesNotAddUpWasEdited) {
  const auto edited = [](const std::function<void(nlohmann::json&)>& edit) {
    auto json = nlohmann::json::parse(snapshot_json(small()));
    edit(json);
    return why(json.dump());
  };
  EXPECT_EQ(edited([](auto&) {}), kNothingRefused);
  EXPECT_THAT(
      edited([](auto& j) { j["segments"][0]["blocks"][2]["size"] = 255; }),
      HasSubstr("segments[0]: its blocks sum to 1023 bytes, not to its total_size of 1024"));
  EXPECT_THAT(edited([](auto& j) { j["segments"][0]["blocks"][1]["address"] = 1; }),
              HasSubstr("blocks[1]: does not begin where"));
  EXPECT_THAT(edited([](auto& j) { j["segments"][0]["blocks"][2]["size"] = 9999; }),
              HasSubstr("reaches beyond its segment"));
  EXPECT_THAT(edited([](auto& j) { j["segments"][0]["blocks"][0]["state"] = "odd"; }),
              HasSubstr("'odd' is not a state"));
  EXPECT_THAT(edited([](auto& j) { j["segments"][0].erase("address"); }),
              HasSubstr("has no 'address'"));
  EXPECT_THAT(edited([](auto& j) { j["segments"][0]["total_size"] = 1.5; }),
              HasSubstr("'total_size' is a float, not an integer"));
  EXPECT_THAT(edited([](auto& j) { j["device_traces"][0][2].erase("addr"); }),
              HasSubstr("device_traces[0][2]: has no 'addr'"));
  EXPECT_THAT(edited([](auto& j) { j["device_traces"][0][1]["size"] = -1; }),
              HasSubstr("a size of -1"));
}

// PyTorch 2.0 has the frames of a block, and the size that was asked for, in its history.
TEST(Snapshots, TheLatestOwnerOfABlockIsReadFromItsHistory) {
  auto json = nlohmann::json::parse(snapshot_json(small()));
  auto& block = json["segments"][0]["blocks"][0];
  const auto frames = block["frames"];
  block.erase("frames");
  block.erase("requested_size");
  block["history"] = {{{"addr", kBase}, {"real_size", 300}, {"frames", frames}},
                      {{"addr", kBase}, {"real_size", 512}}};
  json["device_traces"] = nlohmann::json::array();
  const DeviceSummary d = analyse(parse_snapshot(json.dump(), "f"))[0];
  EXPECT_EQ(d.sites[0].site, "a train.py:7");
  EXPECT_EQ(d.sites[0].bytes, 300);
}

// PyTorch leaves the size last asked for in a free block, though it has been divided since; and
// what was refused may have been larger than any memory.
TEST(Snapshots, FreeBlocksAndRefusedRequestsAreAsPyTorchLeavesThem) {
  auto json = nlohmann::json::parse(snapshot_json(small()));
  json["segments"][0]["blocks"][2]["requested_size"] = 100000;
  json["device_traces"][0][7]["size"] = std::int64_t{1} << 50;
  const Snapshot read = parse_snapshot(json.dump(), "f");
  EXPECT_EQ(read.segments[0].blocks[2].requested, 256);
  EXPECT_EQ(read.traces[0][7].size, std::int64_t{1} << 50);
  json["segments"][0]["blocks"][1]["requested_size"] = 257;
  EXPECT_THAT(why(json.dump()), HasSubstr("requested 257 bytes of 256"));
}

TEST(Snapshots, APieceOfAFileIsRefusedWhereverItEnds) {
  const std::string bytes = pickle(small());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_NE(why(bytes.substr(0, n)), kNothingRefused) << n;
}

TEST(Snapshots, SharingAndCyclesCostNothing) {
  // l = [l, l, l ...], and a list within a list, two million deep through the memo.
  std::string cycle("\x80\x02]q\x00(", 6);
  for (int i = 0; i < 1000; ++i) cycle += std::string("h\0", 2);
  EXPECT_THAT(why(cycle + "e."), HasSubstr("segments[0]: is a list, not a dictionary"));
  std::string deep("\x80\x02]q\x00", 5);
  for (int i = 0; i < 2'000'000; ++i)
    deep += std::string(
        "]q\x01h\x00"
        "aq\x00",
        8);
  EXPECT_NE(why(deep + "."), kNothingRefused);
}

}  // namespace
}  // namespace tidemark
