// The text about races that a program reads: texts without addresses, counts, the switch, and what
// is forgotten.
#include <nlohmann/json.hpp>

#include "harness/virtual/device/testing.h"
#include "harness/virtual/race/control.h"

namespace tidemark::device::testing {
namespace {

struct Report : ::testing::Test {
  void SetUp() override {
    schedule("lagging");
    CUDA(cudaMalloc(&memory, kBytes));
    tidemark_races_detect(1);
  }
  void TearDown() override {
    tidemark_races_detect(0);
    CUDA(cudaFree(memory));
  }
  static nlohmann::json races() { return nlohmann::json::parse(text_of(tidemark_races_read)); }
  static nlohmann::json without_places(nlohmann::json all) {
    for (auto& each : all) each["last"] = nlohmann::json::array();
    return all;
  }
  void set(cudaStream_t stream, std::size_t at = 0, std::size_t bytes = 4096) {
    CUDA(cudaMemsetAsync(static_cast<char*>(memory) + at, 0, bytes, stream));
  }
  tidemark_access tensor(bool write, std::int64_t elements = 1024) {
    tidemark_access access{};
    access.address = access.storage = memory;
    access.type = "float32";
    access.element = 4;
    access.dims = 1;
    access.write = write;
    access.sizes[0] = elements;
    access.strides[0] = 1;
    return access;
  }
  void operate(const char* name, cudaStream_t stream, bool write) {
    tidemark_races_begin_operator(name);
    enqueue(stream, "kernel", {});
    const auto access = tensor(write);
    tidemark_races_end_operator(&access, 1);
  }

  static constexpr std::size_t kBytes = 1 << 20;
  void* memory = nullptr;
  cudaStream_t a = make_stream(), b = make_stream();
};

TEST_F(Report, SaysWhoWhereWhatAndWhen) {
  tidemark_races_phase("forward");
  operate("first", a, true);
  tidemark_races_phase("backward");
  operate("second", b, false);
  EXPECT_EQ(nlohmann::json::parse(R"([{"first": {"op": "first", "stream": "stream 1"},
    "second": {"op": "second", "stream": "stream 2"}, "kind": "race", "bytes": 4096, "count": 1, "last": [], "explanation":
    "second (stream 2, backward) reads 4096 bytes of its float32 [1024] that first (stream 1, forward) writes as float32 [1024]; no stream order, event or host synchronisation puts one after the other"}])"),
            without_places(races()));
}

TEST_F(Report, NamesTheOperationsOfTheLastTime) {
  tidemark_device_trace(1);
  for (int i = 0; i < 3; ++i) {
    operate("write", a, true);
    operate("read", b, false);
  }
  tidemark_device_trace(0);
  const auto spans = traced();
  ASSERT_EQ(6U, spans.size());
  EXPECT_STREQ("write", spans[4].op);
  EXPECT_STREQ("read", spans[5].op);
  EXPECT_EQ(TIDEMARK_SPAN_OP, spans[5].kind);
  const auto last = races().at(0).at("last");
  const auto here = [&](std::size_t i) { return nlohmann::json{spans[i].stream, spans[i].place}; };
  EXPECT_EQ(here(4), last[0]);
  EXPECT_EQ(here(5), last[1]);
  char name[32];
  tidemark_device_lane_name(spans[5].stream, name, sizeof name);
  EXPECT_STREQ("stream 2", name);
  tidemark_device_stream_name(b, name, sizeof name);
  EXPECT_STREQ("stream 2", name);
  tidemark_device_lane_name(TIDEMARK_HOST_LANE, name, sizeof name);
  EXPECT_STREQ("host", name);
}

TEST_F(Report, TellsOfTheFreeAndTheSecondAllocation) {
  tidemark_races_phase("forward");
  tidemark_races_allocated(memory, 4096, a);
  operate("gather", b, true);
  tidemark_races_freed(memory);
  tidemark_races_phase("backward");
  tidemark_races_allocated(memory, 2048, a);
  operate("zero", a, true);
  const std::string text = races().at(0).at("explanation");
  EXPECT_NE(
      std::string::npos,
      text.find("the block of the first (4096 bytes, allocated on stream 2 in forward) was freed "
                "in forward and "
                "its memory given to another (2048 bytes, allocated on stream 2 in backward)"))
      << text;
}

TEST_F(Report, EqualPairsCountAndOthersDoNot) {
  for (int i = 0; i < 5; ++i) {
    operate("write", a, true);
    operate("read", b, false);
  }
  const auto all = races();
  ASSERT_EQ(2U, all.size());  // read after write, and the next write after that read
  EXPECT_EQ(5, all[0]["count"]);
  EXPECT_TRUE(all[0]["explanation"].get<std::string>().ends_with(" (5 times)")) << all[0];
  EXPECT_EQ(4, all[1]["count"]);
}

TEST_F(Report, ReadersDoNotRaceAndOneWriterRacesWithAllOfThem) {
  const cudaStream_t c = make_stream();
  for (const auto stream : {a, b, c}) operate("read", stream, false);
  EXPECT_TRUE(races().empty());
  set(nullptr);
  EXPECT_EQ(3U, races().size());
  EXPECT_EQ("default stream", races()[0]["second"]["stream"]);
}

TEST_F(Report, AtMostAHundredKinds) {
  for (int i = 0; i < 150; ++i) {
    operate(("write" + std::to_string(i)).c_str(), i % 2 ? a : b, true);
  }
  EXPECT_EQ(100U, races().size());
}

TEST_F(Report, NothingIsSeenWhileItIsOff) {
  tidemark_races_detect(0);
  EXPECT_FALSE(tidemark_races_detected());
  set(a);
  set(b);
  EXPECT_TRUE(races().empty());
  tidemark_races_detect(1);
  set(a);
  EXPECT_TRUE(races().empty()) << "what came before is unknown";
  set(b);
  EXPECT_EQ(1U, races().size());
  tidemark_races_detect(1);
  EXPECT_TRUE(races().empty());
}

TEST_F(Report, AnOperatorThatUsesNoStreamTouchesNothing) {
  set(a);
  tidemark_races_begin_operator("idle");
  const auto access = tensor(true);
  tidemark_races_end_operator(&access, 1);
  EXPECT_TRUE(races().empty());
}

TEST_F(Report, CopiesInsideAnOperatorGoByItsName) {
  set(a);
  tidemark_races_begin_operator("outer");
  tidemark_races_begin_operator("inner");
  set(b);
  tidemark_races_end_operator(nullptr, 0);
  const auto access = tensor(true);
  tidemark_races_end_operator(&access, 1);
  ASSERT_EQ(1U, races().size()) << races().dump(1);
  EXPECT_EQ("outer", races()[0]["second"]["op"]);
  EXPECT_EQ(1, races()[0]["count"]) << "one operation, seen twice";
}

TEST_F(Report, HostWaitsOrderWhileOthersStillWork) {
  const cudaStream_t c = make_stream();
  set(c, 8192);  // goes on: not everything is done
  set(a);
  CUDA(cudaStreamSynchronize(a));
  set(b);
  EXPECT_TRUE(races().empty());
  set(a, 8192);
  EXPECT_EQ(1U, races().size()) << "nobody has waited for this one";
}

// A pool gives a block that is done to any stream, and so orders that stream after it.
TEST_F(Report, PoolsGiveMemoryToOtherStreamsInOrder) {
  schedule("instant");
  void *first = nullptr, *second = nullptr;
  const std::size_t whole = std::size_t{32} << 20;  // all that the pool takes at a time
  CUDA(cudaMallocAsync(&first, whole, a));
  CUDA(cudaMemsetAsync(first, 0, 4096, a));
  CUDA(cudaFreeAsync(first, a));
  CUDA(cudaMallocAsync(&second, whole, b));
  ASSERT_EQ(first, second);
  CUDA(cudaMemsetAsync(second, 0, 4096, b));
  EXPECT_TRUE(races().empty());
  CUDA(cudaFreeAsync(second, b));
  CUDA(cudaDeviceSynchronize());
}

TEST_F(Report, ReturnedMemoryHasNoOwner) {
  tidemark_races_allocated(memory, 4096, a);
  tidemark_races_freed(memory);
  set(a);
  EXPECT_EQ("free", races().at(0)["first"]["op"]);
  tidemark_races_detect(1);
  tidemark_races_allocated(memory, 4096, a);
  tidemark_races_freed(memory);
  tidemark_races_returned(memory, kBytes);
  set(a);
  EXPECT_TRUE(races().empty());
}

TEST_F(Report, TwoRunsReadAlike) {
  const auto run = [&] {
    tidemark_races_detect(1);
    const cudaStream_t c = make_stream(), d = make_stream();
    operate("x", c, true);
    operate("y", d, true);
    operate("z", c, false);
    return races();
  };
  EXPECT_EQ(without_places(run()), without_places(run()));
}

}  // namespace
}  // namespace tidemark::device::testing
