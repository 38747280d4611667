// The recorded memory of a step, compared with the allocator's own snapshot at that very
// moment; and what occupies its streams.
#include "harness/measure/scenario_record.h"

#include <ATen/ATen.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "harness/device/platform.h"
#include "harness/judge/gradients.h"
#include "harness/measure/recorder.h"
#include "harness/memory/process_record.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/step.h"
#include "harness/record/join.h"
#include "harness/run/variant.h"

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

struct Row {
  std::int64_t address;
  Bytes bytes, requested;
  char use;
  bool operator==(const Row&) const = default;
};
using Rows = std::vector<Row>;

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.address << " " << row.bytes << " " << row.requested << " " << row.use << "\n";
}

// Segments ('L', 'S') with their blocks ('a', 'p', 'f'), by address.
Rows live() {
  auto segments = allocator::snapshot({0, 0}, false).segments;
  std::ranges::sort(segments, {}, [](const auto& segment) { return segment.address; });
  Rows rows;
  for (const auto& segment : segments) {
    auto at = static_cast<std::int64_t>(segment.address);
    rows.push_back({at, static_cast<Bytes>(segment.total_size), 0, segment.is_large ? 'L' : 'S'});
    for (const auto& block : segment.blocks) {
      const char use = block.allocated ? 'a' : block.active ? 'p' : 'f';
      rows.push_back({at, static_cast<Bytes>(block.size),
                      use == 'f' ? 0 : static_cast<Bytes>(block.requested_size), use});
      at += static_cast<Bytes>(block.size);
    }
  }
  return rows;
}

Rows rows_of(const std::vector<Segment>& segments) {
  Rows rows;
  for (const Segment& segment : segments) {
    rows.push_back({segment.address, segment.total_size, 0, segment.type == "large" ? 'L' : 'S'});
    for (const MemoryBlock& block : segment.blocks)
      rows.push_back(
          {block.address, block.size, block.requested, "apf"[static_cast<int>(block.state)]});
  }
  return rows;
}

Snapshot history_of(ScenarioRecord& record) {
  return record_snapshot(RecordBytes{record.bytes()}, "a record");
}

Bytes allocated() { return allocator::getDeviceStats(0).allocated_bytes[0].current; }

Trial trial_of(const std::string& schedule) {
  return {"tide", "", schedule, {}, Mode::shapes, 1, 2, 0};
}

// A program that allocates and frees at random on two streams, and what its record says of it.
class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      const auto kind = random_() % 20;
      if (kind < 11 || tensors_.empty()) {
        allocate();
      } else if (kind < 18) {
        std::swap(tensors_[random_() % tensors_.size()], tensors_.back());
        tensors_.pop_back();
      } else if (kind == 18) {
        c10::cuda::getCurrentCUDAStream().synchronize();
      } else {
        allocator::emptyCache();
      }
    }
  }
  void observe() {
    if (allocated() > highest_) highest_ = allocated(), at_highest_ = live();
  }
  void forget_peaks() { highest_ = allocated(), at_highest_ = live(); }
  void release() { tensors_.clear(); }
  const Rows& at_highest() const { return at_highest_; }

 private:
  void allocate() {
    const Bytes sizes[] = {1,         512,      513,     100'000, 1 << 20, (1 << 20) + 1,
                           3'333'333, 11 << 20, 9 << 20, 30 << 20};
    auto side = c10::cuda::getStreamFromPool(false, 0);
    const bool on_side = random_() % 3 == 0;
    c10::cuda::CUDAStreamGuard guard(on_side ? side : c10::cuda::getDefaultCUDAStream(0));
    const Bytes size = sizes[random_() % std::size(sizes)] + static_cast<Bytes>(random_() % 5000);
    tensors_.push_back(at::empty({size}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte)));
    observe();
    if (random_() % 3 == 0) tensors_.back().record_stream(side);
    if (random_() % 4 == 0) tensors_.pop_back();  // at once, before anything else happens
  }

  std::mt19937 random_;
  std::vector<at::Tensor> tensors_;
  Bytes highest_ = 0;
  Rows at_highest_;
};

using Four = std::array<Bytes, 4>;

Four four(const recorder::Statistics& of) {
  return {of.allocated, of.active, of.reserved, of.requested};
}

// PyTorch's own statistics: their highest since they were reset, or those of now.
Four own(bool peak) {
  const auto stats = allocator::getDeviceStats(0);
  Four out{};
  std::size_t place = 0;
  for (const auto* each :
       {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes, &stats.requested_bytes})
    out[place++] = peak ? (*each)[0].peak : (*each)[0].current;
  return out;
}

class Maps : public ::testing::TestWithParam<const char*> {};

TEST_P(Maps, AreTheAllocatorsOwnSnapshotAtThatMoment) {
  const std::string schedule = GetParam();
  const bool expandable = schedule == "expandable";
  if (virtual_device() == nullptr && (expandable || schedule == "calibrated"))
    GTEST_SKIP() << "for the virtual device";
  prepare_device(trial_of(expandable ? "lagging" : schedule));
  if (expandable) {
    // A segment reserves addresses for the whole device, one for every pool and stream: of a small
    // device ThreadSanitizer, which leaves a program 1.5 TiB of them, has room for all.
    ASSERT_TRUE(set_capacity(Bytes{2} << 30));
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  }
  for (unsigned seed = 0; seed < 6; ++seed) {
    Random program(seed);
    ScenarioRecord tide(0, true);
    program.run(12);
    const auto all_steps = tide.begin(0);
    Four highest = own(false);
    for (int step = 0; step < 3; ++step) {
      tide.step(step + 1, true);
      allocator::resetPeakStats(0);
      const auto of_step = tide.begin(0);
      const Four begin = own(false);
      program.forget_peaks();
      for (int i = 0; i < 5; ++i) {
        program.run(12);
        ASSERT_EQ(rows_of(history_of(tide).segments), live())
            << "seed " << seed << " step " << step;
      }
      Rows blocks = program.at_highest();
      std::erase_if(blocks, [](const Row& row) { return row.use != 'a' && row.use != 'p'; });
      std::ranges::stable_sort(blocks, std::greater(), &Row::bytes);
      const StepMemory memory = step_memory(history_of(tide), 0, blocks.size() + 1);
      const auto& largest = memory.largest;
      ASSERT_EQ(largest.size(), blocks.size()) << "seed " << seed << " step " << step;
      for (std::size_t i = 0; i < largest.size(); ++i) {
        EXPECT_EQ(largest[i].bytes, blocks[i].bytes);
        EXPECT_EQ(largest[i].pending, blocks[i].use == 'p');
      }
      Bytes sum = 0;
      for (const auto& [kind, category] : memory.categories) sum += category.peak_share;
      Bytes alive_bytes = 0;
      for (const auto& row : program.at_highest()) alive_bytes += row.use == 'a' ? row.bytes : 0;
      EXPECT_EQ(sum, alive_bytes);
      const recorder::Stretch stretch = tide.read(of_step);
      EXPECT_EQ(four(stretch.begin), begin);
      EXPECT_EQ(four(stretch.highest), own(true)) << "seed " << seed << " step " << step;
      EXPECT_EQ(four(stretch.now), own(false));
      tide.end(of_step);
      for (std::size_t i = 0; i < highest.size(); ++i)
        highest[i] = std::max(highest[i], own(true)[i]);
    }
    EXPECT_EQ(four(tide.read(all_steps).highest), highest);
    program.release();
    c10::cuda::device_synchronize();
    allocator::emptyCache();
  }
  if (expandable) {
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:False");
    set_capacity(0);
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Maps,
                         ::testing::Values("instant", "calibrated", "lagging", "expandable"));

TEST(Categories, OfATensorMayChange) {
  prepare_device(trial_of("lagging"));
  ScenarioRecord tide(0, false);
  tide.step(1, true);
  const auto end_of = [&](MemoryKind kind) {
    return step_memory(history_of(tide), 0, 1).categories[kind].end;
  };
  at::Tensor tensor = at::empty({3'000'000}, at::TensorOptions().device(at::kCUDA));
  const Bytes block = end_of(MemoryKind::activations), before = end_of(MemoryKind::gradients);
  EXPECT_GE(block, 4 * 3'000'000);
  change_category(tensor, MemoryKind::gradients);
  EXPECT_EQ(end_of(MemoryKind::activations), 0);
  EXPECT_EQ(end_of(MemoryKind::gradients), before + block);
  tensor.reset();
  EXPECT_EQ(end_of(MemoryKind::gradients), before);
}

// Two steps of a program.
RankRecord recorded(const std::string& schedule, const std::function<void(Recorder&)>& body,
                    bool closely = true) {
  prepare_device(trial_of(schedule));
  Recorder recorder(trial_of(schedule), closely);
  for (int step = 0; step < 2; ++step) {
    recorder.begin_step(step);
    body(recorder);
    recorder.end_step();
  }
  recorder.finish();
  return std::move(recorder.record);
}

const auto kFloats = at::TensorOptions().device(at::kCUDA);

TEST(Largest, NamesOperatorShapeTypeAndCategory) {
  const auto record = recorded("lagging", [](Recorder& recorder) {
    recorder.phase("forward");
    CategoryScope scope(MemoryKind::activations);
    at::Tensor a = at::zeros({512, 1024}, kFloats.dtype(at::kHalf));
    at::Tensor w = at::ones({1024, 2048}, kFloats.dtype(at::kHalf)).requires_grad_(true);
    at::Tensor b = at::mm(a, w);
    at::Tensor view = b.view({-1});
    b.sum().backward();
  });
  const auto find = [&](const std::string& op) {
    const auto match = std::ranges::find_if(record.largest, [&](const AliveBlock& block) {
      return block.op == op && block.category != MemoryKind::workspaces;
    });
    return match == record.largest.end() ? AliveBlock() : *match;
  };
  const AliveBlock product = find("aten::mm");
  EXPECT_EQ(product.shape, (std::vector<std::int64_t>{512, 2048}));
  EXPECT_EQ(product.dtype, "Half");
  EXPECT_EQ(product.bytes, 2 << 20);
  EXPECT_EQ(product.category, MemoryKind::activations);
  EXPECT_EQ(product.stream, "default stream");
  EXPECT_EQ(find("aten::ones").shape, (std::vector<std::int64_t>{1024, 2048}));
  EXPECT_EQ(find("aten::mm (MmBackward0)").shape, (std::vector<std::int64_t>{1024, 2048}));
  EXPECT_LE(record.largest.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(record.largest, std::greater(), &AliveBlock::bytes));
}

TEST(Streams, SpansOfOperatorsCopiesAndWaitsWithTheHostsRunAhead) {
  if (virtual_device() == nullptr) GTEST_SKIP() << "a GPU does not tell";
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(false, 0);
  const auto record = recorded("calibrated", [&](Recorder& recorder) {
    recorder.phase("forward");
    at::Tensor a = at::zeros({2048, 2048}, kFloats);
    at::Tensor b = at::mm(a, a);
    c10::cuda::CUDAEvent ready;
    ready.record(c10::cuda::getCurrentCUDAStream());
    ready.block(side);
    {
      c10::cuda::CUDAStreamGuard guard(side);
      at::Tensor c = at::mul(b, 2);
      side.synchronize();
    }
  });
  const Spans& spans = record.spans;
  ASSERT_GE(spans.streams.size(), 3u);
  EXPECT_EQ(spans.streams[0], "host");
  EXPECT_EQ(spans.left_out, 0);
  std::map<std::string, int> seen;
  Ns ahead = 0;
  for (const Span& span : spans.all) {
    ++seen[std::string(name_of(span.kind)) + " " + spans.names[span.name] + " on " +
           spans.streams[span.stream]];
    EXPECT_LE(span.begin, span.end);
    if (span.stream != 0) {
      EXPECT_LE(span.enqueued, span.begin);
    }
    ahead = std::max(ahead, span.begin - span.enqueued);
  }
  EXPECT_GE(seen["operator aten::mm on default stream"], 1);
  EXPECT_EQ(seen["operator aten::mul.Tensor on stream 1"], 1) << ::testing::PrintToString(seen);
  EXPECT_EQ(seen["wait wait for an event on stream 1"], 1);
  EXPECT_EQ(seen["wait synchronise on host"], 1);
  EXPECT_GT(ahead, 0);
  EXPECT_TRUE(record.races.empty());
}

TEST(Streams, ARaceNamesTheSpansOfItsTwoAccesses) {
  if (virtual_device() == nullptr) GTEST_SKIP() << "a GPU does not tell";
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(false, 0);
  const auto record = recorded("calibrated", [&](Recorder& recorder) {
    recorder.phase("forward");
    at::Tensor a = at::zeros({4096}, kFloats);
    c10::cuda::CUDAStreamGuard guard(side);
    a.add_(1);
  });
  ASSERT_FALSE(record.races.empty());
  const Race& race = record.races.front();
  for (const Access* access : {&race.first, &race.second}) {
    ASSERT_GE(access->span, 0);
    const Span& span = record.spans.all.at(static_cast<std::size_t>(access->span));
    EXPECT_EQ(record.spans.names[span.name], access->op);
    EXPECT_EQ(record.spans.streams[span.stream], access->stream);
  }
}

TEST(Recording, CloselyOrNotMeasuresTheSame) {
  const auto body = [](Recorder& recorder) {
    recorder.phase("forward");
    at::Tensor a = at::zeros({300, 1024}, kFloats), b = at::ones({1024, 70}, kFloats);
    b.requires_grad_(true);
    at::mm(a, b).exp().sum().backward();
  };
  const RankRecord records[] = {recorded("lagging", body, false), recorded("lagging", body)};
  EXPECT_TRUE(records[0].memory.empty());
  EXPECT_FALSE(records[1].memory.empty());
  EXPECT_EQ(records[0].counters.launches, records[1].counters.launches);
  ASSERT_EQ(records[0].timeline.size(), records[1].timeline.size());
  for (std::size_t i = 0; i < records[0].timeline.size(); ++i) {
    if (virtual_device() != nullptr)  // a GPU's clock is the host's
      EXPECT_EQ(records[0].timeline[i].time, records[1].timeline[i].time);
    EXPECT_EQ(records[0].timeline[i].active, records[1].timeline[i].active);
  }
  for (Statistic statistic : kStatistics)
    EXPECT_EQ(records[0].peak(statistic), records[1].peak(statistic));
}

TEST(Gradients, TheWorstElementAndTheFirstOfAllShards) {
  const auto shard = [](std::int64_t offset, std::vector<float> values) {
    return Shard{"w", offset, at::tensor(values)};
  };
  const std::vector<Shard> base{shard(0, {1, 2}), shard(2, {3, 4})};
  const std::vector<Shard> mine{shard(0, {1, 2}), shard(2, {3, 4.5f})};
  const std::vector<Shard> whole{{"w", 0, at::tensor({1.0, 2.0, 3.0, 4.0}).reshape({2, 2})}};
  auto rows = gradient_errors(mine, &base, whole);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(rows[0].first, 3);
  EXPECT_EQ(rows[0].baseline->absolute, 0.5);
  EXPECT_EQ(rows[0].baseline->ulps, 1 << 20);
  EXPECT_DOUBLE_EQ(rows[0].baseline->relative, 0.5 / 5);
  EXPECT_EQ(rows[0].reference->absolute, 0.5);
  const auto same = gradient_errors(base, &base, whole);
  EXPECT_EQ(same[0].first, -1);
  EXPECT_EQ(same[0].baseline->ulps, 0);
  EXPECT_FALSE(gradient_errors(base, nullptr, whole)[0].baseline.has_value());
  EXPECT_FALSE(gradient_errors(base, nullptr, {})[0].reference.has_value());
  const std::vector<Shard> broken{shard(0, {NAN, 2})};
  for (const GradientError& row : gradient_errors(broken, &base, whole)) worse(rows, row);
  EXPECT_EQ(rows[0].first, 0);
  EXPECT_EQ(rows[0].baseline->absolute, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tidemark
