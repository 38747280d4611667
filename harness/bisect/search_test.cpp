// The search for versions at which a peak changes, against series whose changes are known.
#include "harness/bisect/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace tidemark {
namespace {

using Tried = Point::Tried;

/// A series: what each version would say if it were tried.
struct Series {
  std::vector<Point> truth;
  Grew grew;

  /// The changes between neighbours of those that run.
  std::vector<std::pair<std::size_t, std::size_t>> changes() const {
    return changed_between(truth, grew);
  }
};

struct Searched {
  std::vector<Point> known;
  std::size_t runs = 0, refusals = 0;
};

Searched search(const Series& series, bool all = false) {
  Searched out;
  out.known.resize(series.truth.size());
  for (auto places = next_points(out.known, series.grew, all); !places.empty();
       places = next_points(out.known, series.grew, all))
    for (const std::size_t place : places) {
      EXPECT_EQ(out.known.at(place).tried, Tried::no) << "tried twice";
      out.known[place] = series.truth[place];
      out.refusals += out.known[place].tried == Tried::refused ? 1U : 0U;
      ++out.runs;
    }
  return out;
}

Point ran(std::int64_t bytes) { return {Tried::ran, bytes, bytes, ""}; }
Point refused(const std::string& why) { return {Tried::refused, 0, 0, why}; }

/// ceil(log2(n)), of the runs that a change takes.
std::size_t halvings(std::size_t n) {
  return static_cast<std::size_t>(std::ceil(std::log2(static_cast<double>(n))));
}

/// Steps up at `steps` places of `count`, each by more than a hundredth.
Series growing(std::mt19937& draw, std::size_t count, std::size_t steps) {
  std::set<std::size_t> places;
  while (places.size() < steps)
    places.insert(std::uniform_int_distribution<std::size_t>(1, count - 1)(draw));
  Series out;
  std::int64_t bytes = 1 << 20;
  for (std::size_t i = 0; i < count; ++i) {
    if (places.contains(i)) bytes += bytes / 10;
    out.truth.push_back(ran(bytes));
  }
  return out;
}

// holds: harness/bisect/README.md, The search
TEST(Search, FindsEveryChangeOfASeriesThatGrows) {
  std::mt19937 draw(20261130);
  for (int trial = 0; trial < 500; ++trial) {
    const auto count = std::uniform_int_distribution<std::size_t>(2, 80)(draw);
    const auto steps =
        std::uniform_int_distribution<std::size_t>(0, std::min<std::size_t>(count - 1, 4))(draw);
    const Series series = growing(draw, count, steps);
    const Searched found = search(series);
    ASSERT_EQ(changed_between(found.known, series.grew), series.changes());
    ASSERT_LE(found.runs, 2 + steps * halvings(count)) << count << " versions, " << steps;
  }
}

TEST(Search, NamesOnlyChangesThatAreThere) {
  std::mt19937 draw(7);
  for (int trial = 0; trial < 500; ++trial) {
    const auto count = std::uniform_int_distribution<std::size_t>(1, 60)(draw);
    Series series;
    for (std::size_t i = 0; i < count; ++i) series.truth.push_back(ran((1 + draw() % 3) << 20));
    const Searched found = search(series);
    const auto all = series.changes(), some = changed_between(found.known, series.grew);
    for (const auto& one : some) ASSERT_NE(std::ranges::find(all, one), all.end());
    const bool ends_differ = differ(series.truth.front(), series.truth.back(), series.grew);
    ASSERT_EQ(some.empty(), !ends_differ);
    const Searched every = search(series, /*all=*/true);
    ASSERT_EQ(changed_between(every.known, series.grew), all);
    ASSERT_EQ(every.runs, count);
  }
}

TEST(Search, PassesOverWhatIsRefused) {
  std::mt19937 draw(11);
  for (int trial = 0; trial < 500; ++trial) {
    const auto count = std::uniform_int_distribution<std::size_t>(3, 60)(draw);
    Series series = growing(draw, count, 1);
    for (std::size_t i = 0; i < count; ++i)  // each for a reason of its own
      if (draw() % 4 == 0) series.truth[i] = refused("reason " + std::to_string(i));
    const Searched found = search(series);
    ASSERT_EQ(changed_between(found.known, series.grew), series.changes());
    ASSERT_LE(found.runs - found.refusals, 4 + 3 * halvings(count));
  }
}

TEST(Search, OldVersionsThatAreRefusedTakeFewRuns) {
  std::mt19937 draw(13);
  for (int trial = 0; trial < 300; ++trial) {
    const auto count = std::uniform_int_distribution<std::size_t>(4, 80)(draw);
    const auto old = std::uniform_int_distribution<std::size_t>(1, count - 2)(draw);
    Series series = growing(draw, count, 1);
    for (std::size_t i = 0; i < old; ++i) series.truth[i] = refused("no module");
    const Searched found = search(series);
    ASSERT_EQ(changed_between(found.known, series.grew), series.changes());
    ASSERT_EQ(found.known[old].tried, Tried::ran) << "the first that runs is known";
    ASSERT_LE(found.runs, 3 + kAlike + 2 * halvings(count));
  }
}

TEST(Search, GivesUpWhereAllAreRefusedAlike) {
  Series series;
  series.truth.assign(40, refused("ImportError: no name"));
  EXPECT_LE(search(series).runs, kAlike);
  series.truth.front() = ran(1 << 20), series.truth.back() = ran(2 << 20);
  const Searched found = search(series);
  EXPECT_LE(found.refusals, 2 * halvings(40) + kAlike);
  EXPECT_EQ(changed_between(found.known, series.grew).size(), 1U);
}

TEST(Grown, IsAShareOrBytes) {
  const Grew share = parse_grew("1%");
  EXPECT_FALSE(differ(ran(1000), ran(1010), share));
  EXPECT_TRUE(differ(ran(1000), ran(1011), share));
  EXPECT_TRUE(differ(ran(1011), ran(1000), share));
  const Grew none = parse_grew("0");
  EXPECT_TRUE(differ(ran(1000), ran(1001), none));
  EXPECT_FALSE(differ(ran(1000), ran(1000), none));
  const Grew bytes = parse_grew("2MiB");
  EXPECT_FALSE(differ(ran(0), ran(2 << 20), bytes));
  EXPECT_TRUE(differ(ran(0), ran((2 << 20) + 1), bytes));
  Point of_allocated = ran(1000);
  of_allocated.allocated = 2000;
  EXPECT_TRUE(differ(ran(1000), of_allocated, share));
  for (const char* wrong : {"", "%", "x%", "-1%", "1 %", "much", "101%"})
    EXPECT_ANY_THROW(parse_grew(wrong)) << wrong;
}

}  // namespace
}  // namespace tidemark
