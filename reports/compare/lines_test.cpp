// Lines of two versions of a program: what only stands elsewhere is no difference.
#include "reports/compare/lines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "reports/program/text.h"

namespace tidemark {
namespace {

using testing::ElementsAre;

/// A line of a program that is written down, with the bytes that are alive of it; 0: none are.
struct Written {
  std::string function, text;
  Bytes bytes = 0;
};

AliveAtPeak alive_of(const std::string& file, const std::vector<Written>& lines) {
  AliveAtPeak out;
  std::int64_t number = 0;
  for (const Written& line : lines) {
    ++number;
    if (line.bytes == 0) continue;
    out.parts.push_back({.kind = MemoryKind::activations,
                         .site = fmt::format("{} {}:{}", line.function, file, number),
                         .count = 1,
                         .bytes = line.bytes,
                         .source = line.text});
    out.active += line.bytes;
  }
  return out;
}

std::vector<std::string> rows(const AliveAtPeak& before, const AliveAtPeak& after) {
  std::vector<std::string> out;
  for (const AlivePart& part : beyond(at_lines_of(before, after), after))
    out.push_back(fmt::format("{:+} {}", part.bytes, part.site));
  return out;
}

const std::vector<Written> kProgram{{"<module>", "import torch"},
                                    {"forward", "a = torch.ones(9)", 900},
                                    {"forward", "b = a * 2", 700},
                                    {"forward", "b = a * 2", 500},
                                    {"step", "loss = model(x)", 300}};

std::vector<Written> with_above(std::vector<Written> lines, int count) {
  for (int i = 0; i < count; ++i) lines.insert(lines.begin(), {"<module>", "import os"});
  return lines;
}

TEST(Lines, TwoLinesAboveAreNoDifference) {
  EXPECT_THAT(rows(alive_of("t.py", kProgram), alive_of("t.py", with_above(kProgram, 2))),
              ElementsAre());
}

TEST(Lines, OfWhatStandsElsewhereTheDifferenceIsOneRow) {
  std::vector<Written> fresh = with_above(kProgram, 2);
  fresh[6].bytes = 200;  // the last line
  EXPECT_THAT(rows(alive_of("t.py", kProgram), alive_of("renamed.py", fresh)),
              ElementsAre("-100 step renamed.py:7"));
}

TEST(Lines, TheFirstOfTwoEqualLinesIsGone) {
  std::vector<Written> fresh = with_above(kProgram, 3);
  fresh.erase(fresh.begin() + 5);
  EXPECT_THAT(rows(alive_of("t.py", kProgram), alive_of("t.py", fresh)),
              ElementsAre("-700 forward t.py:3"));
}

TEST(Lines, ALineThatAnotherOneReplacesIsNotMixedWithIt) {
  std::vector<Written> fresh = kProgram;
  fresh.erase(fresh.begin() + 1);
  fresh.insert(fresh.begin() + 2, {{"forward", "c = a + b", 40}, {"forward", "d = c", 50}});
  EXPECT_THAT(
      rows(alive_of("t.py", kProgram), alive_of("t.py", fresh)),
      ElementsAre("-900 forward t.py:2 as it was", "+50 forward t.py:4", "+40 forward t.py:3"));
}

TEST(Lines, AChangedLineIsPairedByItsPlace) {
  std::vector<Written> fresh = with_above(kProgram, 2);
  fresh[3] = {"forward", "a = torch.ones(4)", 400};
  EXPECT_THAT(rows(alive_of("t.py", kProgram), alive_of("t.py", fresh)),
              ElementsAre("-500 forward t.py:4"));
}

TEST(Lines, ANodeOfAutogradGoesWithItsLine) {
  AliveAtPeak before = alive_of("t.py", kProgram),
              after = alive_of("t.py", with_above(kProgram, 1));
  for (AliveAtPeak* each : {&before, &after})
    for (AlivePart& part : each->parts) part.site += " (MmBackward0)";
  EXPECT_THAT(rows(before, after), ElementsAre());
}

TEST(Lines, WithoutTextsNumbersDecide) {
  AliveAtPeak before = alive_of("t.py", kProgram), after = before;
  for (AliveAtPeak* each : {&before, &after})
    for (AlivePart& part : each->parts) part.source.clear();
  EXPECT_THAT(rows(before, after), ElementsAre());
  after.parts[0].site = "forward t.py:99";
  EXPECT_THAT(rows(before, after), ElementsAre("-900 forward t.py:2", "+900 forward t.py:99"));
}

TEST(Lines, SitesThatAreNoLinesStayAsTheyAre) {
  AliveAtPeak before;
  for (const char* site : {"MmBackward0", "", "(", "autograd's engine", "f :3", "f x.py:", "a (b)"})
    before.parts.push_back({.kind = MemoryKind::other, .site = site, .bytes = 1, .source = "x"});
  const AliveAtPeak same = at_lines_of(before, before);
  for (std::size_t i = 0; i < before.parts.size(); ++i)
    EXPECT_EQ(same.parts[i].site, before.parts[i].site);
}

/// Random programs and random edits of them: lines are put in, taken out and moved down, a function
/// goes to another place, and the file has another name. Each row is a line that was edited.
TEST(Lines, RandomEditsGiveTheirOwnRows) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  const auto below = [&](std::size_t most) { return random() % most; };
  for (int round = 0; round < 300; ++round) {
    std::vector<Written> old;
    const std::size_t functions = 1 + below(4);
    int number = 0;
    for (std::size_t f = 0; f < functions; ++f)
      for (std::size_t i = 0; i < 1 + below(12); ++i)
        old.push_back({fmt::format("f{}", f), fmt::format("line {}", ++number),
                       below(3) == 0 ? 0 : static_cast<Bytes>(1 + below(1000))});
    std::vector<Written> fresh = old;
    std::map<std::string, Bytes> expected;  // by text
    for (std::size_t i = 0; i < below(4); ++i) {
      const auto at = fresh.begin() + static_cast<std::ptrdiff_t>(below(fresh.size()));
      switch (below(3)) {
        case 0:  // a new line of another function, so that no old one can be meant
          fresh.insert(at, {"new", fmt::format("new {}", ++number), 64});
          expected[fmt::format("new {}", number)] += 64;
          break;
        case 1:
          if (fresh.size() == 1 || at->function == "new") break;
          expected[at->text] -= at->bytes;
          fresh.erase(at);
          break;
        default:
          if (at->bytes == 0) break;
          expected[at->text] += 8;
          at->bytes += 8;
      }
    }
    if (below(2) == 0)  // another order of the functions
      std::ranges::stable_sort(fresh, std::greater<>(), &Written::function);
    fresh = with_above(std::move(fresh), static_cast<int>(below(40)));
    const AliveAtPeak before = alive_of("a.py", old),
                      after = alive_of(below(2) == 0 ? "a.py" : "b.py", fresh);
    const AliveAtPeak moved = at_lines_of(before, after);
    std::map<std::string, std::string> texts;
    for (const AliveAtPeak* each : {&moved, &after})
      for (const AlivePart& part : each->parts) texts[part.site] = part.source;
    std::map<std::string, Bytes> measured;
    Bytes sum = 0;
    for (const AlivePart& part : beyond(moved, after)) {
      measured[texts.at(part.site)] += part.bytes;
      sum += part.bytes;
    }
    std::erase_if(expected, [](const auto& one) { return one.second == 0; });
    EXPECT_EQ(measured, expected) << "round " << round;
    EXPECT_EQ(sum, after.active - before.active);
  }
}

}  // namespace
}  // namespace tidemark
