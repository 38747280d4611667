// Reports of programs: text, verdicts, files, and two of them held together.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "reports/compare/render.h"
#include "reports/headline.h"
#include "reports/program/text.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ProcessRecord process(std::optional<int> rank, Bytes active) {
  ProcessRecord out;
  out.rank = rank, out.pid = 100 + rank.value_or(0), out.ended = true;
  out.devices = {{0, active - 100, active, active + 100, active - 7, 0, 0}};
  return out;
}

TrialRecord program(const std::string& schedule, std::vector<Bytes> active) {
  TrialRecord trial = program_trial({"python3", "train.py"}, Mode::known, schedule,
                                    static_cast<int>(active.size()));
  for (std::size_t rank = 0; rank < active.size(); ++rank)
    trial.program->processes.push_back(process(static_cast<int>(rank), active[rank]));
  trial.alive =
      AliveAtPeak{"rank1",
                  active.back(),
                  active.back() + 100,
                  {{MemoryKind::parameters, "*", "build train.py:3", 2, 300},
                   {MemoryKind::activations, "*", "step train.py:9", 1, active.back() - 300}}};
  return trial;
}

Report report(std::vector<TrialRecord> programs) {
  Report out;
  out.trials = std::move(programs);
  return out;
}

TEST(Program, BracketOfSchedules) {
  const std::vector programs{program("instant", {1000, 1000}), program("lagging", {1500, 1800})};
  EXPECT_THAT(
      bracket(programs),
      ElementsAre(ElementsAre("peak of active", "instant", "lagging", "highest - lowest", ""),
                  ElementsAre("rank 0", "1,000", "1,500", "500", "500 bytes"),
                  ElementsAre("rank 1", "1,000", "1,800", "800", "800 bytes")));
  const RunAhead ahead = run_ahead(programs);
  ASSERT_EQ(ahead.parts.size(), 1u);  // what is the same is left out
  EXPECT_EQ(ahead.parts[0].bytes, 800);
  EXPECT_EQ(ahead.parts[0].site, "step train.py:9");
  EXPECT_EQ(ahead.high->schedule, "lagging");
  EXPECT_TRUE(bracket({programs[0]}).empty());
  EXPECT_EQ(bracket_text({programs[0]}), "");
}

TEST(Program, TheBracketOfAKilledProcessIsUnknown) {
  std::vector programs{program("instant", {1000}), program("lagging", {1500})};
  programs[1].program->processes[0].ended = false;
  EXPECT_THAT(bracket(programs)[1], ElementsAre("rank 0", "1,000", "unknown", "unknown", ""));
}

TEST(Program, ExitCodeHeadlineAndFiles) {
  Report one = report({program("lagging", {3 << 20, 2 << 20})});
  EXPECT_EQ(one.exit_code(), 0);
  EXPECT_EQ(headline(one), "Peak: 3.0 MiB allocated, 3 MiB active, 3.0 MiB reserved");
  EXPECT_THAT(markdown(one), HasSubstr("| rank 1 | 2,097,052 | 2,097,152 | 2,097,252 |"));
  EXPECT_THAT(junit(one), HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\""));
  one.trials[0].verdicts = {{.name = "memory/allocated/limit",
                             .status = Status::fail,
                             .high = 7,
                             .measured = 9,
                             .why = "--max-peak: rank 0 allocated <much>"}};
  EXPECT_EQ(one.exit_code(), kCheckFailed);
  EXPECT_EQ(headline_status(one), Status::fail);
  EXPECT_THAT(junit(one),
              HasSubstr("<failure message=\"--max-peak: rank 0 allocated &lt;much&gt;\""));
  EXPECT_THAT(markdown(one), HasSubstr("--max-peak: rank 0 allocated &lt;much&gt;"));
  one.trials[0].program->exit_code = 7;
  EXPECT_EQ(one.exit_code(), 7) << "the same in every file, and the program's own";
  EXPECT_THAT(headline(one), HasSubstr("Exit code 7. 1 verdict failed. Peak: "));
  EXPECT_THAT(junit(one), HasSubstr("the program ended with exit code 7"));
  one.trials[0].program->findings = {"out of memory on <rank> 1", "grows by 2 MiB a step"};
  EXPECT_THAT(headline(one), HasSubstr("Out of memory on <rank> 1. 1 verdict failed. Peak: "));
  EXPECT_THAT(junit(one), HasSubstr("<error message=\"out of memory on &lt;rank&gt; 1\">"));
  EXPECT_THAT(junit(one), HasSubstr("\ngrows by 2 MiB a step\n"));
  EXPECT_THAT(markdown(one),
              HasSubstr("- out of memory on &lt;rank&gt; 1\n- grows by 2 MiB a step\n"));
  one.trials[0] = program_trial({"true"}, Mode::known, "lagging", 1);
  EXPECT_EQ(one.exit_code(), 4);  // nothing was measured
  EXPECT_THAT(junit(one), HasSubstr("<skipped message=\"no process of the program"));
}

TEST(Program, CompareNamesWhatGrewByLine) {
  const Report base = report({program("lagging", {1000, 1000})}),
               more = report({program("lagging", {1000, 1200})});
  const Comparison c = compare(base, more, {});
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_EQ(c.count(Effect::regression), 3);  // allocated, active, reserved of rank 1
  ASSERT_EQ(c.count(Effect::changed), 1);
  EXPECT_EQ(c.changes.back().metric, "alive/activations, *, step train.py:9");
  EXPECT_EQ(*c.changes.back().after - *c.changes.back().before, 200);
  EXPECT_EQ(compare(more, base, {}).exit_code(), 0);
}

TEST(Program, AWaterfallSumsToTheChangeOfThePeak) {
  TrialRecord before = program("lagging", {1000}), after = program("lagging", {1000});
  before.alive->parts = {{MemoryKind::activations, "", "a t.py:1", 1, 600},
                         {MemoryKind::activations, "", "b t.py:2", 1, 100},
                         {MemoryKind::other, "", "c t.py:3", 1, 300}};
  after.alive->parts = {{MemoryKind::activations, "", "a t.py:1", 1, 900},
                        {MemoryKind::activations, "", "b t.py:2", 1, 200},
                        {MemoryKind::backward, "", "d t.py:4", 1, 50}};
  after.alive->active = 1150;
  Report base = report({before}), fresh = report({after});
  base.run.torch = "2.8", fresh.run.torch = "2.11";
  const Side a{"a", base}, b{"b", fresh};
  const Comparison c = compare(base, fresh, {});
  EXPECT_EQ(text_of(causes(c, a, b, 2)),
            "The runs were made differently (1)\n"
            "  torch: 2.8 -> 2.11\n"
            "\n"
            "peak of active under lagging: 1000 bytes -> 1.1 KiB, +150 bytes:\n"
            "              +300  activations, a t.py:1\n"
            "              -300  other, c t.py:3\n"
            "              +150  in 2 more lines\n"
            "\n");
  const std::string markdown = comparison_markdown(c, a, b), page = comparison_html(c, a, b);
  EXPECT_THAT(markdown, HasSubstr("| +300 | activations |  | a t.py:1 |"));
  EXPECT_THAT(page, HasSubstr("<td class=\"figure\">-300</td><td>other</td>"));
  const Section whole = difference(before, after, 9);
  Bytes drawn = 0;
  const auto picture = nlohmann::json::parse(whole.pictures.at(0).json);
  for (const auto& part : picture["parts"]) drawn += part["bytes"].get<Bytes>();
  EXPECT_EQ(drawn, 150) << "the picture's bars end at the new peak";
  Bytes sum = 0;
  for (const AlivePart& part : beyond(*before.alive, *after.alive)) sum += part.bytes;
  EXPECT_EQ(sum, 150);
  before.alive.reset();
  EXPECT_TRUE(difference(before, after, 2).rows.empty());
}

TEST(Program, CompareOrdersLinesByBytes) {
  Report base = report({program("lagging", {100'000})}), more = base;
  base.trials[0].alive->parts = {{MemoryKind::activations, "", "large", 1, 90'000},
                                 {MemoryKind::other, "", "small", 1, 10}};
  more.trials[0].alive->parts = {{MemoryKind::activations, "", "large", 1, 99'000},
                                 {MemoryKind::other, "", "small", 1, 1000}};
  const Comparison c = compare(base, more, {});
  ASSERT_EQ(c.changes.size(), 2u);
  EXPECT_EQ(c.changes[0].metric, "alive/activations, large") << "10 %, and 9,000 bytes";
}

TEST(Program, CompareMissesWhatWasNotMeasured) {
  const Report base = report({program("lagging", {1000, 1000})});
  Report killed = base;
  killed.trials[0].program->processes[1].ended = false;
  const Comparison c = compare(base, killed, {});
  EXPECT_THAT(c.missing, ElementsAre("program under lagging, rank 1"));
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_THAT(compare(killed, base, {}).fresh, ElementsAre("program under lagging, rank 1"));
  EXPECT_THAT(compare(base, report({program("instant", {1000, 1000})}), {}).missing,
              ElementsAre("program under lagging"));
}

}  // namespace
}  // namespace tidemark
