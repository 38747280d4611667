// Reports of programs: text, verdicts, files, and two of them held together.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/compare/render.h"
#include "reports/headline.h"
#include "reports/markup.h"
#include "reports/program/alive.h"
#include "reports/program/finding.h"
#include "reports/program/page.h"
#include "reports/program/provenance.h"
#include "reports/program/sections.h"
#include "reports/program/text.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

TEST(Program, ChecksHaveUnitsAndEveryByteAsTheirTooltips) {
  Report one = report({program("lagging", {1500})});
  one.trials[0].verdicts = {{.name = "memory/reserved/limit",
                             .status = Status::fail,
                             .high = 8 << 20,
                             .measured = 9 << 20,
                             .unit = "bytes"}};
  const std::string page = whole(program_page(one, {}, testing::TempDir()));
  EXPECT_THAT(page, HasSubstr("<span title=\"9,437,184 bytes (+1,048,576)\">9 MiB (1 MiB more)<"));
  EXPECT_THAT(page, HasSubstr("<span title=\"at most 8,388,608 bytes\">at most 8 MiB<"));
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
  const std::string peak =
      "train.py: peak of 2 MiB on rank 1: 2.0 MiB of activations, 300 bytes of parameters";
  EXPECT_EQ(one.exit_code(), 0);
  EXPECT_EQ(headline(one), peak);
  EXPECT_THAT(markdown(one), HasSubstr("| rank 1 | 2.00 | 2.00 | 2.00 |"));
  EXPECT_THAT(markdown(one),
              HasSubstr("| 2.00 | 100.0 % | 1 | activations | \\* | step train.py:9 |"));
  EXPECT_THAT(junit(one), HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\""));
  EXPECT_THAT(junit(one), HasSubstr("<system-out>" + peak + "</system-out>"));
  one.trials[0].verdicts = {{.name = "memory/allocated/limit",
                             .status = Status::fail,
                             .high = 7,
                             .measured = 9,
                             .why = "--max-peak: rank 0 allocated <much>"}};
  EXPECT_EQ(one.exit_code(), kCheckFailed);
  EXPECT_EQ(headline(one), peak + "; 1 of 1 check failed");
  EXPECT_EQ(headline_status(one), Status::fail);
  EXPECT_THAT(junit(one),
              HasSubstr("<failure message=\"--max-peak: rank 0 allocated &lt;much&gt;\""));
  EXPECT_THAT(markdown(one), HasSubstr("--max-peak: rank 0 allocated &lt;much&gt;"));
  one.trials[0].program->exit_code = 7;
  EXPECT_EQ(one.exit_code(), 7) << "the same in every file, and the program's own";
  EXPECT_THAT(headline(one), HasSubstr("train.py ended with exit code 7, after a peak of 2 MiB"));
  EXPECT_THAT(junit(one), HasSubstr("the program ended with exit code 7"));
  one.trials[0].program->findings = {"out of memory on <rank> 1", "grows by 2 MiB a step"};
  EXPECT_THAT(junit(one), HasSubstr("\ngrows by 2 MiB a step\n"));
  EXPECT_THAT(markdown(one),
              HasSubstr("- out of memory on &lt;rank&gt; 1\n- grows by 2 MiB a step\n"));
  one.trials[0] = program_trial({"true"}, Mode::known, "lagging", 1);
  EXPECT_EQ(one.exit_code(), 4);  // nothing was measured
  EXPECT_THAT(junit(one),
              HasSubstr("<skipped message=\"true: no process has recorded CUDA memory"));
}

TEST(Program, TheFindingIsThatOfTheRecordAndTheSameInEveryFile) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> scripts{
      {{"python3", "a/train.py", "--out", "x.py"}, "train.py"},
      {{"torchrun", "--nproc-per-node", "2", "/there/a/<b>&.py"}, "<b>&.py"},
      {{"/usr/bin/python3.11", "-m", "pkg.train"}, "pkg.train"},
      {{"python3", "-m", "torch.distributed.run", "x.py"}, "x.py"},
      {{"python3", "-c", "exec('a.py')  # b.py"}, "python3 -c"},
      {{"bash", "run.sh"}, "run.sh"},
      {{"./a.out"}, "a.out"}};
  std::mt19937 random(65);
  const auto of = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  std::map<FindingKind, int> seen;
  for (int round = 0; round < 300; ++round) {
    const auto& [words, script] = scripts[static_cast<std::size_t>(of(7))];
    Report one = report({});
    one.run.profile = "h100-80g", one.run.capacity_bytes = 1 << 30;
    one.run.argv = {"tidemark", "exec", "--gpu", "h100-80g", "--report", "/there/a/b", "--"};
    one.run.argv.insert(one.run.argv.end(), words.begin(), words.end());
    std::vector<Bytes> active(static_cast<std::size_t>(of(3)));
    for (Bytes& bytes : active) bytes = (1 + of(900)) << 20;
    TrialRecord trial =
        active.empty() ? program_trial({}, Mode::known, "lagging", 1) : program("lagging", active);
    trial.program->words = words;
    if (of(2) == 0) trial.alive.reset();
    ProgramRecord& it = *trial.program;
    const bool full = !active.empty() && of(3) == 0;
    if (full) it.processes[0].devices[0].ooms = 1;
    it.exit_code = of(2) == 0 ? 0 : 1 + of(3);
    if (full && of(3) > 0) it.needs = MemoryNeed{0, (512 + of(1024)) << 20, of(2) ? "late" : ""};
    HighestPeak peak;
    if (!active.empty() && of(3) == 0)
      peak.growths = {{.where = "rank0",
                       .unit = "step",
                       .least = 1 << 20,
                       .most = 1 << 20,
                       .parts = {{MemoryKind::activations, "", "f train.py:3", 1, 1 << 20}},
                       .holders = {{"`<kept>` in f (train.py:2)"}}}};
    const Finding finding = finding_of(trial, peak, one.run);
    ++seen[finding.kind];
    EXPECT_TRUE(finding.text.starts_with(script + ": ") || finding.text.starts_with(script + " "))
        << finding.text;
    const FindingKind expected = full                    ? FindingKind::out_of_memory
                                 : it.exit_code != 0     ? FindingKind::ended
                                 : !peak.growths.empty() ? FindingKind::grows
                                 : active.empty()        ? FindingKind::nothing
                                                         : FindingKind::peak;
    EXPECT_EQ(finding.kind, expected) << finding.text;
    const bool more = it.needs && it.needs->reserved > one.run.capacity_bytes;
    const std::string amount =
        more ? fmt::format("it needs {}{} more than the 1 GiB",
                           it.needs->until.empty() ? "" : "at least ",
                           bytes_text(it.needs->reserved - one.run.capacity_bytes))
             : "";
    EXPECT_EQ(finding.text.find("it needs ") != std::string::npos, more) << finding.text;
    EXPECT_THAT(finding.text, HasSubstr(amount));
    it.finding = finding;
    one.trials = {std::move(trial)};
    EXPECT_EQ(headline(one), finding.text);
    EXPECT_TRUE(markdown(one).starts_with("# " + markdown_text(finding.text) + "\n"))
        << markdown(one);
    EXPECT_THAT(markdown(one), Not(HasSubstr("/there"))) << "no folder of the machine";
    EXPECT_EQ(
        markdown(one).find("peak of the run in which an allocation failed") != std::string::npos,
        full && one.trials[0].alive)
        << "what is listed is not of the run with room";
    EXPECT_THAT(junit(one), HasSubstr(markup_text(finding.text)));
    const Report back = parse_report(json_text(one), "this");
    ASSERT_TRUE(back.trials[0].program->finding);
    EXPECT_EQ(back.trials[0].program->finding->text, finding.text);
    EXPECT_EQ(back.trials[0].program->finding->kind, finding.kind);
  }
  EXPECT_EQ(seen.size(), 5u) << "every kind";
}

TEST(Program, TheWorstOfSeveralSchedulesIsTheHeadline) {
  Report all = report({program("instant", {1 << 20}), program("lagging", {2 << 20})});
  EXPECT_THAT(headline(all), HasSubstr("peak of 2 MiB on rank 1: "));
  EXPECT_THAT(headline(all), HasSubstr("(schedule lagging)"));
  all.trials[0].program->exit_code = 3;
  EXPECT_THAT(headline(all), HasSubstr("train.py ended with exit code 3"));
  EXPECT_THAT(headline(all), HasSubstr("(schedule instant)"));
}

TEST(Program, ProvenanceHasAllFlagsAndNoFolders) {
  Report one = report({program("lagging", {1 << 20, 2 << 20})});
  one.trials[0].ranks = 512;
  one.trials[0].program->words = {"/opt/v/bin/python", "train.py", "--data=/mnt/a/b.csv", "x y"};
  one.run.argv = {"tidemark",  "exec",       "--capacity",
                  "1GiB",      "--report",   "--force",
                  "--out",     "a",          "--gpu=/there/me/my.json",
                  "--as-rank", "0,511",      "--color=always",
                  "--report",  "/there/me/r"};
  one.run.torch = "2.11.0", one.run.tidemark = "1.0.0", one.run.git = "abc";
  one.run.host = "secret", one.run.started = "2026-11-30T06:42:33Z", one.run.profile = "h100-80g";
  one.run.capacity_bytes = 1 << 30;
  for (const bool dashes : {true, false}) {
    Report run = one;
    if (dashes) run.run.argv.emplace_back("--");
    for (const std::string& word : one.trials[0].program->words) run.run.argv.push_back(word);
    EXPECT_EQ(command_of(run),
              "tidemark exec --capacity 1GiB --gpu=my.json --as-rank 0,511 -- python train.py "
              "--data=b.csv 'x y'");
  }
  EXPECT_EQ(
      provenance(one),
      "torch 2.11.0, tidemark 1.0.0 (abc), virtual h100-80g with 1 GiB for PyTorch, mode known, "
      "schedule lagging, 2 ranks of 512, 2026-11-30");
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
  EXPECT_THAT(page, HasSubstr(", 150 bytes more at the peak</h1>"));
  EXPECT_THAT(markdown, HasSubstr(", 150 bytes more at the peak\n"));
  EXPECT_THAT(markdown, testing::StartsWith("# tidemark compare: train.py: "));
  EXPECT_THAT(page, testing::ContainsRegex("<h1[^>]*>train.py: "));
  EXPECT_THAT(page, testing::ContainsRegex(">-300</td><td[^>]*>other</td>"));
  const Section whole = difference(before, after, 9);
  Bytes drawn = 0;
  std::vector<Bytes> bars;
  const std::string& markup = whole.pictures.at(0).markup;
  const std::string mark = "<data value=\"";
  for (auto at = markup.find(mark); at != markup.npos; at = markup.find(mark, at + 1))
    bars.push_back(std::stoll(markup.substr(at + mark.size())));
  ASSERT_EQ(bars.front(), 1000);
  ASSERT_EQ(bars.back(), 1150);
  for (std::size_t i = 1; i + 1 < bars.size(); ++i) drawn += bars[i];
  EXPECT_EQ(drawn, 150) << "the picture's bars end at the new peak";
  Bytes sum = 0;
  for (const AlivePart& part : beyond(*before.alive, *after.alive)) sum += part.bytes;
  EXPECT_EQ(sum, 150);
  before.alive.reset();
  EXPECT_TRUE(difference(before, after, 2).rows.empty());
}

TEST(Program, RanksWithEqualPeaksAreOneRowWhereThereAreMany) {
  std::mt19937 random(65);
  for (const int ranks : {1, 2, 8, 9, 64, 512})
    for (const int kinds : {1, 3, 40}) {
      std::vector<Bytes> active;
      for (int rank = 0; rank < ranks; ++rank)
        active.push_back(Bytes{1 << 20} *
                         (1 + static_cast<Bytes>(random() % static_cast<unsigned>(kinds))));
      const Report one = report({program("lagging", active)});
      const ProgramRecord& it = *one.trials[0].program;
      const std::vector<EqualPeaks> groups = equal_peaks(it);
      const std::set<Bytes> different(active.begin(), active.end());
      EXPECT_EQ(groups.size(), ranks <= 8 ? static_cast<std::size_t>(ranks) : different.size());
      std::size_t all = 0;
      for (const EqualPeaks& group : groups) {
        all += group.count;
        EXPECT_EQ(group.count, ranks <= 8 ? 1
                                          : static_cast<std::size_t>(
                                                std::ranges::count(active, group.device->active)));
        EXPECT_TRUE(group.who.starts_with(group.count == 1 ? "rank " : "ranks ")) << group.who;
        EXPECT_LE(group.who.size(), 50u);
      }
      EXPECT_EQ(all, active.size());
      const std::string text = table(it), summary = markdown(one);
      EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(text, '\n')), 1 + groups.size());
      const Section section = peaks_section(one);
      const std::string page = section_html(section);
      for (const EqualPeaks& group : groups) EXPECT_THAT(page, HasSubstr("<td>" + group.who + "<"));
      EXPECT_EQ(page.find("<details>") != page.npos, groups.size() > 12);
      EXPECT_EQ(summary.find("more rows with lower peaks") != summary.npos, groups.size() > 12);
      EXPECT_THAT(summary, HasSubstr(bytes_text(*different.rbegin()).substr(0, 2)));
    }
  Report two = report({program("lagging", std::vector<Bytes>(16, 1 << 20))});
  two.trials[0].program->processes[3].devices[0].retries = 1;
  two.trials[0].program->processes[9].ended = false;
  std::vector<std::string> names;
  for (const EqualPeaks& group : equal_peaks(*two.trials[0].program)) names.push_back(group.who);
  EXPECT_THAT(names, ElementsAre("ranks 0-2, 4-8, 10-15 (14 ranks)", "rank 3", "rank 9"));
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

TEST(Alive, TheDeviceThatHasMostLeftAtTheEndComesFirst) {
  HighestPeak peak;
  peak.file = "rank0.record";
  for (int rank = 0; rank < 3; ++rank)
    peak.left.push_back(
        {fmt::format("rank{}", rank), 0, false, (rank == 1 ? 3 : 1 + rank / 2) << 20, {}});
  EXPECT_THAT(alive_text({peak}),
              HasSubstr("alive at the program's end, as requested: 3 MiB of rank 1 (); "
                        "1 MiB of rank 0, 2 MiB of rank 2\n"));
}

}  // namespace
}  // namespace tidemark
