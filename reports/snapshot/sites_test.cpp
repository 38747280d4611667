// Lines of two snapshots: what only stands elsewhere is no difference.
#include "reports/snapshot/sites.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>
#include <tuple>

namespace tidemark {
namespace {

constexpr std::int64_t kBase = 0x7f0000000000;

/// A snapshot whose functions have lines as given, each of which allocates blocks of one size.
Snapshot of_lines(const std::vector<std::tuple<std::string, std::int64_t, std::int64_t>>& lines,
                  const std::vector<std::string>& sources = {}) {
  Snapshot s;
  s.stacks = {{}};
  s.traces.emplace_back();
  Segment segment;
  segment.address = kBase;
  for (const auto& [function, line, bytes] : lines) {
    if (!sources.empty()) s.sources.push_back({"/y/train.py", line, sources[s.frames.size()]});
    s.stacks.push_back({static_cast<std::uint32_t>(s.frames.size())});
    s.frames.push_back({function, "/y/train.py", line});
    AllocatorEvent event;
    event.address = segment.address + segment.total_size, event.size = bytes;
    event.stack = static_cast<std::uint32_t>(s.stacks.size() - 1);
    s.traces[0].push_back(event);
    segment.blocks.push_back({event.address, bytes, bytes, BlockState::allocated, event.stack});
    segment.total_size += bytes;
  }
  s.segments = {segment};
  return s;
}

std::string changed(const Snapshot& a, const Snapshot& b) {
  std::string out;
  for (const SiteChange& one : changes_between(a, b))
    out += fmt::format("{:+} {}{}\n", one.after.bytes - one.before.bytes, one.site,
                       one.was.empty() ? "" : " was " + one.was);
  return out;
}

TEST(Sites, ALineThatOnlyMovedIsNoDifference) {
  const auto before = of_lines({{"f", 3, 512}, {"f", 4, 1024}, {"f", 5, 1024}, {"g", 9, 2048}});
  const auto moved = of_lines({{"f", 5, 512}, {"f", 6, 1024}, {"f", 7, 1024}, {"g", 11, 2048}});
  EXPECT_EQ(changed(before, moved), "");
  EXPECT_EQ(changed(moved, before), "");
  const auto smaller = of_lines({{"f", 5, 256}, {"f", 6, 512}, {"f", 7, 512}, {"g", 11, 2048}});
  EXPECT_EQ(changed(before, smaller),
            "-512 f train.py:6 was f train.py:4\n-512 f train.py:7 was f train.py:5\n"
            "-256 f train.py:5 was f train.py:3\n");
  const auto one_more =
      of_lines({{"f", 3, 512}, {"f", 4, 4096}, {"f", 5, 1024}, {"f", 6, 1024}, {"g", 10, 2048}});
  EXPECT_EQ(changed(before, one_more), "+4096 f train.py:4\n");
  EXPECT_EQ(changed(one_more, before), "-4096 f train.py:4 as it was was f train.py:4\n");
}

TEST(Sites, SourcesTellLinesOfAFunctionApart) {
  const auto before = of_lines({{"f", 3, 512}, {"f", 4, 1024}}, {"a = new(x)", "b = new(y)"});
  const auto swapped = of_lines({{"f", 3, 2048}, {"f", 4, 512}}, {"b = new(y)", "a = new(x)"});
  EXPECT_EQ(changed(before, swapped), "+1024 f train.py:3 was f train.py:4\n");
}

TEST(Sites, ThatMovedByAnyNumberOfLinesAreEqual) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const auto draw = [&](int most) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> lines, moved;
    std::int64_t line = 0, shift = draw(50);
    for (std::int64_t i = draw(12); i >= 0; --i) {
      line += 1 + draw(4);
      if (draw(3) == 0) shift += draw(9);  // more was put between them
      const std::string function = "f" + std::to_string(line / 12);
      lines.emplace_back(function, line, 512 * (1 + draw(3)));
      moved.emplace_back(function, line + shift, std::get<2>(lines.back()));
    }
    EXPECT_EQ(changed(of_lines(lines), of_lines(moved)), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace tidemark
