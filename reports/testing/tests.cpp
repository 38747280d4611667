// A pytest run as python/tidemark/report.py writes it: a limit that holds, one that does not, a
// pair with a control, an error and a skip.
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

VariantRecord tested(const std::string& name, Role role, Bytes peak) {
  VariantRecord out;
  out.name = name, out.role = role;
  RankRecord rank;
  Phase whole{"test", {}};
  for (auto& level : whole.levels) level = {peak, 0};
  rank.steps = {{{whole}, {}}};
  out.ranks = {rank};
  return out;
}

Verdict judged(const std::string& name, const std::string& of, double measured, double low,
               double high) {
  Verdict out;
  out.name = name, out.variant = of, out.measured = measured, out.high = high;
  if (low >= 0) out.low = low;
  out.status = measured > high || measured < low ? Status::fail : Status::pass;
  return out;
}

TrialRecord one_test(const std::string& name) {
  TrialRecord out;
  out.scenario = "tests/test_memory.py::" + name, out.size = "test", out.schedule = "calibrated";
  out.ranks = 1;
  return out;
}

}  // namespace

Report tests_report() {
  Report out;
  out.run = {.id = "20260102-030405-1",
             .started = "2026-01-02T03:04:05Z",
             .torch = "2.11.0",
             .argv = {"pytest", "tests"},
             .device_kind = "virtual",
             .profile = "h100-80g",
             .capacity_bytes = Bytes{80} << 30};
  TrialRecord fits = one_test("test_fits"), over = one_test("test_<b>is_over</b>"),
              pair = one_test("test_pair");
  TrialRecord broke = one_test("test_broke"), skipped = one_test("test_skipped");
  fits.variants = {tested("test", Role::baseline, 6 * kMiB)};
  fits.verdicts = {judged("memory/reserved/limit", "test", 6 * kMiB, -1, 8 * kMiB)};
  over.variants = {tested("test", Role::baseline, 9 * kMiB)};
  over.verdicts = {judged("memory/allocated/limit", "test", 9 * kMiB, -1, 8 * kMiB),
                   judged("memory/requested/forward/rise", "test", 4 * kMiB, 4 * kMiB, 4 * kMiB)};
  over.verdicts[1].formula = "4*n", over.verdicts[1].values = {{"n", 1.0 * kMiB}};
  over.alive = AliveAtPeak{"rank 0", 9 * kMiB, 10 * kMiB, {}};
  for (int i = 0; i < 8; ++i)  // the smallest two are not in the page's table
    over.alive->parts.push_back(
        {MemoryKind::other, "", "step t.py:" + std::to_string(i), 1, kMiB / 4});
  over.alive->parts.push_back(
      {MemoryKind::activations, "layers.*", "forward <model>.py:5", 2, 6 * kMiB});
  for (const int line : {8, 9, 10})
    over.alive->parts.push_back({MemoryKind::other, "", "step t.py:" + std::to_string(line), 1,
                                 line == 10 ? kMiB / 2 : kMiB / 4});
  pair.variants = {tested("kept", Role::baseline, 4 * kMiB), tested("freed", Role::fixed, kMiB),
                   tested("never", Role::control, 4 * kMiB)};
  pair.verdicts = {judged("saving/allocated/step", "freed", 3 * kMiB, 3 * kMiB, 3 * kMiB)};
  broke.variants = {tested("test", Role::baseline, 0)};
  broke.variants[0].ranks.clear();
  broke.variants[0].error = "a signal ended rank 0";
  skipped.skipped = "needs two GPUs";
  out.trials = {fits, over, pair, broke, skipped};
  return out;
}

}  // namespace tidemark
