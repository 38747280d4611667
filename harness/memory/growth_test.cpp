// Growth from step to step: what counts as one, and what a step may keep for the next.
#include "harness/memory/growth.h"

#include <gmock/gmock.h>

#include <random>

namespace tidemark {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

/// Steps of 100 moments each. A block of the n-th step, from 0, begins 10 moments after it.
struct Program {
  MemoryPicture picture;

  explicit Program(std::size_t steps, const std::string& phase = "forward", bool numbered = true) {
    picture.where = "rank3";
    picture.events.resize(steps * 100 + 50);
    picture.reserved.assign(picture.events.size(), 1120 * kMiB);
    picture.places = {{MemoryKind::activations, "layers.3.up", "evaluate leak.py:8", "", 0},
                      {MemoryKind::other, "", "main leak.py:20", "", 0}};
    for (std::size_t i = 0; i < steps; ++i)
      picture.phases.push_back(
          {phase, numbered ? static_cast<std::int64_t>(i) + 1 : 1, i * 100, i * 100 + 50});
  }
  /// `for_steps`: how many steps it outlives.
  void block(std::size_t step, std::int64_t bytes, std::size_t for_steps, std::size_t place = 0) {
    const std::size_t from = step * 100 + 10, end = picture.events.size();
    const std::size_t until = std::min(end, from + for_steps * 100 + 20);
    picture.blocks.push_back({place, bytes, from, until, until});
  }
};

TEST(Growth, OfEveryStepSinceTheSecond) {
  Program p(8);
  for (std::size_t step = 1; step < 8; ++step)
    p.block(step, 192 * kMiB, 99), p.block(step, 32 * kMiB, 99, 1);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->since, 2);
  EXPECT_EQ(growth->last, 6);
  EXPECT_EQ(growth->least, 224 * kMiB);
  EXPECT_EQ(growth->most, 224 * kMiB);
  EXPECT_EQ(growth->reserved, 1120 * kMiB);
  // The sixth step reserves 1,120 MiB, the 14th 2,912, the 15th 3,136.
  const std::string text = growth_text(*growth, 3000 * kMiB);
  EXPECT_THAT(text, HasSubstr("rank 3 grows by 224 MiB a step since step 2: 192 MiB in 1 block, "
                              "activations, module layers.*.up, evaluate leak.py:8; 32 MiB in 1 "
                              "block, other, main leak.py:20;"));
  EXPECT_THAT(text, HasSubstr("; what holds them is not known; at this rate"));
  EXPECT_THAT(text, HasSubstr("full in step 15"));
}

// A tensor of 4 bytes takes a block of 512.
TEST(Growth, FillsTheGpuByBlocks) {
  Program p(8);
  for (std::size_t step = 0; step < 8; ++step) p.block(step, 4, 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(
      growth_text(*growth, 1121 * kMiB),
      testing::AllOf(HasSubstr("grows by 4 bytes a step"),
                     HasSubstr("; at 512 bytes a step, as the allocator rounds blocks, the "),
                     HasSubstr("full in step 2,055")));
}

TEST(Growth, NamesWhatHoldsMostOfIt) {
  Program p(8);
  MemoryPicture::Place place = p.picture.places[0];
  for (const char* name : {"`total` in main (leak.py:9)", "`loss` in main (leak.py:7)"})
    place.holder.name = name, p.picture.places.push_back(place);
  for (std::size_t step = 0; step < 8; ++step)
    p.block(step, 2 * kMiB, 99, step == 4 ? 2 : 0), p.block(step, kMiB, 99, step == 4 ? 3 : 0);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth->holders,
              testing::ElementsAre(Holder{"`total` in main (leak.py:9)", false, false, 1, 2}));
  EXPECT_THAT(growth_text(*growth, 3000 * kMiB),
              HasSubstr("; held by `total` in main (leak.py:9) (1 of 2 blocks); at this rate"));
}

// A cache of the last three of ten, and a list that has them all.
TEST(Growth, IsHeldByWhatHoldsMostAndNotByTheLast) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::size_t steps = std::uniform_int_distribution<std::size_t>(8, 40)(random);
    const std::size_t few = std::uniform_int_distribution<std::size_t>(1, steps / 2 - 1)(random);
    Program p(steps);
    MemoryPicture::Place place = p.picture.places[0];
    for (const char* name : {"`results` in main (serve.py:9)", "`lru` in main (serve.py:7)"})
      place.holder.name = name, p.picture.places.push_back(place);
    for (std::size_t step = 0; step < steps; ++step)
      p.block(step, kMiB, 99, step < steps - 2 - few ? 2 : 3);
    const auto growth = growth_of(p.picture);
    ASSERT_TRUE(growth);
    const std::size_t most = std::max(steps - 2 - few, few);
    EXPECT_EQ(growth->holders[0].held, static_cast<std::int64_t>(most)) << steps << " " << few;
    EXPECT_EQ(growth->holders[0].asked, static_cast<std::int64_t>(steps - 2));
    if (2 * few != steps - 2)
      EXPECT_EQ(growth->holders[0].name.starts_with("`results`"), 2 * few < steps - 2);
  }
}

TEST(Growth, OfRanksThatGrowAlikeIsOneLine) {
  std::vector<StepGrowth> growths;
  const auto add = [&](const char* where, std::int64_t bytes, std::int64_t reserved) {
    Program p(8);
    p.picture.where = where;
    p.picture.reserved.assign(p.picture.events.size(), reserved);
    for (std::size_t step = 0; step < 8; ++step) p.block(step, bytes, 99);
    growths.push_back(*growth_of(p.picture));
  };
  add("rank0", kMiB, 100 * kMiB);
  add("rank1", 4 * kMiB, 100 * kMiB);
  EXPECT_THAT(growth_texts(growths, 0),
              testing::ElementsAre(testing::StartsWith("rank 1 grows by 4 MiB a step since"),
                                   testing::StartsWith("rank 0 grows by 1 MiB a step since")));
  add("rank2", kMiB, 200 * kMiB);
  auto texts = growth_texts(growths, 300 * kMiB);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_THAT(texts[1], testing::StartsWith("rank 0 and rank 2 grow by 1 MiB a step since step 1"));
  EXPECT_THAT(texts[1], HasSubstr("full in step 107")) << "rank 2, which has less left";
  for (const char* more : {"rank3", "rank4", "rank5"}) add(more, kMiB, 100 * kMiB);
  texts = growth_texts(growths, 0);
  EXPECT_THAT(texts[1], testing::StartsWith("rank 0, rank 2 and 3 more grow by 1 MiB a step"));
}

// A program without modules, backwards and optimizers.
TEST(Growth, OfTheProgramsOwnRanges) {
  Program p(12, "decode", false);
  for (std::size_t step = 0; step < 12; ++step) p.block(step, kMiB, 99);
  auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth_text(*growth, 0), HasSubstr("grows by 1 MiB a `decode` since `decode` 1: "));
  for (MemoryPicture::Block& block : p.picture.blocks)
    block.waits = block.until = p.picture.events.size() - 1;
  EXPECT_FALSE(growth_of(p.picture)) << "it is given back after the last";
}

TEST(Growth, OfACycleHasNoRateSincePythonsCollectorFreesIt) {
  Program p(8);
  p.picture.places[0].holder = {"attribute `y` of Twice", true};
  for (std::size_t step = 0; step < 8; ++step) p.block(step, kMiB, 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth_text(*growth, 3000 * kMiB),
              testing::EndsWith("; held by a cycle of references (attribute `y` of Twice), which "
                                "waits for Python's collector"));
}

TEST(Growth, WhatAStepKeepsForTheNextIsNone) {
  Program p(8);
  for (std::size_t step = 0; step < 8; ++step) p.block(step, kMiB, 1), p.block(step, kMiB, 2, 1);
  EXPECT_FALSE(growth_of(p.picture));
}

TEST(Growth, WhatTheFirstStepMakesIsNone) {
  Program p(8);
  p.block(0, kMiB, 99);
  p.block(1, kMiB, 99);
  EXPECT_FALSE(growth_of(p.picture));
}

TEST(Growth, OfDifferentSizesHasBothEnds) {
  Program p(8);
  for (std::size_t step = 0; step < 8; ++step)
    p.block(step, (1 + static_cast<std::int64_t>(step) % 3) * kMiB, 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  // 1,120 MiB in the sixth step, and 941 more of 2 MiB.
  EXPECT_THAT(growth_text(*growth, 3000 * kMiB),
              testing::AllOf(HasSubstr("grows by 1 MiB to 3 MiB a step since step 1:"),
                             HasSubstr("; at 2 MiB a step on average the "),
                             HasSubstr("full in step 947")));
}

// What is kept for three steps leaves it open whether the last ones of its place are left behind.
TEST(Growth, OfPlacesThatAreComparedDifferentlyFarIsTheirSum) {
  Program p(12);
  for (std::size_t step = 0; step < 12; ++step) {
    p.block(step, kMiB, 99), p.block(step, 2 * kMiB, 99, 1);
    p.block(step, 7 * kMiB, 4);
  }
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth_text(*growth, 0), HasSubstr("grows by 3 MiB a step since step 1:"));
}

// The outputs of a step's microbatches are there until its end.
TEST(Growth, BackwardsBeforeAnOptimizersStepAreNoSteps) {
  Program p(10, "backward", false);
  for (std::size_t step = 0; step < 10; ++step) p.block(step, kMiB, 99);
  p.picture.phases.push_back({"optimizer", 1, 460, 480});
  const auto after = growth_of(p.picture);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->since, 1) << "of the five backwards after the optimizer";
  p.picture.phases.back() = {"optimizer", 1, 560, 580};
  EXPECT_FALSE(growth_of(p.picture));
}

TEST(Growth, OutsideModulesIsNoModule) {
  Program p(8);
  p.picture.places[0].module = "outside modules";
  for (std::size_t step = 0; step < 8; ++step)
    p.block(step, 100 * kMiB + static_cast<std::int64_t>(step), 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth_text(*growth, 0),
              HasSubstr("grows by 100.0 MiB a step since step 1: 100.0 MiB in 1 block, "
                        "activations, outside modules, evaluate leak.py:8"));
}

TEST(Growth, WithoutAnOptimizerBackwardsAreSteps) {
  Program p(6, "backward", false);
  for (std::size_t step = 0; step < 6; ++step) p.block(step, kMiB, 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth_text(*growth, 0), HasSubstr("a backward since backward 1"));
  Program few(4, "backward", false);
  for (std::size_t step = 0; step < 4; ++step) few.block(step, kMiB, 99);
  EXPECT_FALSE(growth_of(few.picture)) << "three steps and the two young ones are five";
  Program graph(6, "backward", false);  // several backwards with a graph of their own, as of MAML
  for (std::size_t step = 0; step < 5; ++step) graph.block(step, kMiB, 5 - step);
  EXPECT_FALSE(growth_of(graph.picture)) << "the last backward frees it";
}

TEST(Growth, OfEveryThirdStep) {
  Program p(14);
  for (const std::size_t step : {2u, 5u, 8u, 11u}) p.block(step, 100 * kMiB, 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  // The last that grows is the 12th; 1,120 MiB + 19 * 100 are more than 3,000 in the 69th.
  const std::string text = growth_text(*growth, 3000 * kMiB);
  EXPECT_THAT(text, HasSubstr("grows by 100 MiB every 3rd step since step 3: 100 MiB in 1 block"));
  EXPECT_THAT(text, HasSubstr("full in step 69"));
}

// 12 MiB in the 40 steps from the third to the 42nd; the last two are not compared.
TEST(Growth, AtUnequalDistancesIsAnAverage) {
  Program p(44);
  for (const std::size_t step : {2u, 3u, 7u, 12u, 14u, 21u, 25u, 30u, 33u, 34u, 38u, 41u})
    p.block(step, kMiB, 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  // 307.2 KiB a step: 1,880 MiB more in 6,267 steps, the first of them the 43rd.
  EXPECT_THAT(
      growth_text(*growth, 3000 * kMiB),
      testing::AllOf(HasSubstr("grows by 307.2 KiB a step on average since step 3: 1 MiB in "
                               "12 of 40 steps in 1 block, activations, module"),
                     HasSubstr("full in step 6,309")));
}

// The steps 0, 1 and 6 of every seven, the last three of them in a row.
TEST(Growth, AtUnequalDistancesThatHappenToBeEqualAtTheEndIsAnAverageToo) {
  Program p(60);
  for (std::size_t step = 0; step < 58; ++step)
    if (step * step % 7 < 2) p.block(step, kMiB, 99);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth_text(*growth, 0), HasSubstr("since step 1: 1 MiB in 26 of 58 steps"));
}

TEST(Growth, AtUnequalDistancesThatHasEndedOrFillsACacheIsNone) {
  for (const std::vector<std::size_t>& steps :
       {std::vector<std::size_t>{0, 1, 3, 4, 6, 7, 9, 10, 13},
        {0, 1, 2, 4, 5, 7, 10, 15, 22, 33},
        {0, 5, 11, 16, 22, 31, 38}}) {
    Program p(44);
    for (const std::size_t step : steps) p.block(step, kMiB, 99);
    EXPECT_FALSE(growth_of(p.picture));
  }
}

TEST(Growth, OfPlacesThatGrowAtDifferentTimesIsAnAverage) {
  Program p(14);
  for (std::size_t step = 0; step < 14; ++step) {
    p.block(step, kMiB, 99);
    if (step % 3 == 2) p.block(step, 6 * kMiB, 99, 1);
  }
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(growth_text(*growth, 0),
              HasSubstr("grows by 3 MiB a step on average since step 3: 6 MiB every 3rd step in 1 "
                        "block, other, main leak.py:20; 1 MiB a step in 1 block, activations"));
}

// As of a loop of three evaluations after every second step, of which the first is before the next.
TEST(Growth, OfPlacesThatGrowUnevenlyIsAnAverageOfEach) {
  Program p(22);
  for (std::size_t step = 0; step < 22; ++step) {
    p.block(step, (1 + static_cast<std::int64_t>(step) % 2) * kMiB, 99);
    if (step % 2 == 1) p.block(step, 24 * kMiB, 99, 1);
  }
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_THAT(
      growth_text(*growth, 0),
      HasSubstr("grows by 13.5 MiB a step on average since step 2: 24 MiB every 2nd step in "
                "1 block, other, main leak.py:20; 1.5 MiB a step on average in 1 block,"));
}

TEST(Growth, ThatHasEndedIsNone) {
  Program p(15);
  for (const std::size_t step : {0u, 3u, 6u, 9u}) p.block(step, kMiB, 99);
  EXPECT_FALSE(growth_of(p.picture)) << "the 13th step has left nothing";
}

// torch.cat of what there was and something more.
TEST(Growth, OfABlockThatGivesWayToALargerOne) {
  for (const std::size_t every : {1u, 2u, 5u}) {
    Program p(7 * every);
    for (std::size_t step = 0; step < 7 * every; step += every)
      p.block(step, static_cast<std::int64_t>(step / every + 1) * kMiB, every);
    const auto growth = growth_of(p.picture);
    ASSERT_TRUE(growth) << every;
    const std::string often = every == 1 ? "a" : every == 2 ? "every 2nd" : "every 5th";
    EXPECT_THAT(
        growth_text(*growth, 3000 * kMiB),
        HasSubstr("grows by 1 MiB " + often + " step since step " + std::to_string(every + 1) +
                  ": 1 MiB as 1 block gives "
                  "way to a larger one, activations, module layers.*.up, evaluate "
                  "leak.py:8; what holds them is not known"));
    EXPECT_THAT(growth_text(*growth, 3000 * kMiB), Not(HasSubstr("full")));
  }
}

// Outputs that are kept until the next step, of batches of several lengths.
TEST(Growth, OfBlocksThatHappenToBeLargerAFewTimesIsNone) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{4, 1, 2, 3, 5, 8, 13, 21},
        {1, 2, 3, 4, 5, 6, 7, 6},
        {8, 8, 8, 8, 8, 1, 2, 3}}) {
    Program p(sizes.size() + 1);
    for (std::size_t step = 0; step < sizes.size(); ++step) p.block(step, sizes[step] * kMiB, 1);
    EXPECT_FALSE(growth_of(p.picture));
  }
}

// Before that, steps are not in the record.
TEST(Growth, OfBlocksThatGiveWayBeginsWhereTheRecordIsWhole) {
  Program p(12);
  p.picture.whole_from = 500;
  for (std::size_t step = 0; step < 12; ++step)
    if (step > 4) p.block(step, static_cast<std::int64_t>(step) * kMiB, 1);
  const auto growth = growth_of(p.picture);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->since, 7);
}

TEST(Growth, OfARingOfBuffersIsNoneOnceItIsFull) {
  for (const std::size_t places : {3u, 4u, 7u})
    for (const std::size_t every : {1u, 2u, 5u}) {
      Program p((2 * places + 3) * every + 2);
      for (std::size_t step = 0; step < (2 * places + 3) * every + 2; step += every)
        p.block(step, static_cast<std::int64_t>(step * 5 % 7 + 1) * kMiB, places * every);
      EXPECT_FALSE(growth_of(p.picture)) << places << " places, every " << every;
    }
}

// Any period and place, beside evaluations, a ring of buffers and a cache that moves.
TEST(Growth, IsFoundWhereverItIsAndNowhereElse) {
  std::mt19937 random(7);
  const auto draw = [&](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random);
  };
  for (int i = 0; i < 500; ++i) {
    const std::size_t every = draw(1, 9), first = draw(0, every - 1), place = draw(2, 5);
    const std::size_t evaluates = draw(2, 9), pushes = draw(1, 9), ring = draw(1, 4);
    const std::size_t moves = draw(1, 9), steps = 70;
    const bool grows = draw(0, 3) > 0;
    Program p(steps);
    for (const char* line : {"train:3", "train:4", "train:5", "train:6"})
      p.picture.places.push_back({MemoryKind::other, "", line, "", 0});
    for (std::size_t step = 0; step < steps; ++step) {
      const auto size = static_cast<std::int64_t>(draw(1, 1000)) * 512;
      if (grows && step % every == first) p.block(step, size, 99, place);
      p.block(step, size, 1, place);  // is kept for the next step
      if (step % evaluates == 0) p.block(step, size, evaluates, 0);
      if (step % pushes == 0) p.block(step, size, ring * pushes, 1);
      if (step % moves == 0) p.block(step, size, moves, place == 2 ? 3 : 2);
    }
    const auto growth = growth_of(p.picture);
    ASSERT_EQ(growth.has_value(), grows) << i;
    if (!grows) continue;
    ASSERT_EQ(growth->parts.size(), 1u) << i;
    EXPECT_EQ(growth->parts[0].site, p.picture.places[place].site) << i;
    EXPECT_EQ(growth->every, static_cast<std::int64_t>(every)) << i;
    EXPECT_EQ(growth->since, static_cast<std::int64_t>(first) + 1) << i;
  }
}

}  // namespace
}  // namespace tidemark
