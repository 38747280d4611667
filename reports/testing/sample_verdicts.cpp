#include "reports/testing/sample_parts.h"

namespace tidemark {
namespace {

Verdict verdict(const std::string& name, const VariantRecord& variant, int rank) {
  return {.name = name, .variant = variant.name, .rank = rank, .status = Status::pass};
}

Verdict exactly(Verdict verdict, double value, const std::string& formula) {
  verdict.low = verdict.high = verdict.measured = value;
  verdict.formula = formula;
  return verdict;
}

Verdict memory(const VariantRecord& variant, const RankRecord& rank, const Phase& phase,
               Statistic s) {
  const std::string name = std::string("memory/form/") + name_of(s) + "/" + phase.name;
  const auto measured = static_cast<double>(phase[s].peak);
  Verdict out = exactly(verdict(name, variant, rank.rank), measured, "R + n*U + block(A)");
  const auto rest = static_cast<double>(rank.rest_before);
  out.values = {{"R", rest}, {"U", 67108864}, {"n", 2}, {"A", measured - rest - 2 * 67108864.0}};
  return out;
}

Verdict saving(const TrialRecord& trial, const VariantRecord& variant, int rank, Statistic s) {
  const auto peak = [&](const VariantRecord& v) {
    return static_cast<double>(
        (*v.ranks[static_cast<std::size_t>(rank)].phase("backward"))[s].peak);
  };
  const std::string name = std::string("saving/") + name_of(s) + "/backward";
  Verdict out = exactly(verdict(name, variant, rank), peak(trial.variants[0]) - peak(variant),
                        "(2*L*k + L - 1)*U");
  out.values = {{"L", 8}, {"U", 67108864}, {"k", 0}};
  return out;
}

/// Of the step's peak on the worst rank, which is the last one: flat buffers, and the rest of it.
Verdict step_saving(const TrialRecord& trial, const VariantRecord& variant) {
  const RankRecord &before = trial.variants[0].ranks.back(), &after = variant.ranks.back();
  const Bytes saved = before.peak(trial.statistic) - after.peak(trial.statistic);
  const Bytes unit = (Bytes{64} << 20) + before.rank * Bytes{2048}, times = saved / unit;
  Verdict out = exactly(verdict("saving/step", variant, before.rank), static_cast<double>(saved),
                        "(rest + (n + 1)*B + A) - (rest + B)");
  out.values = {{"rest", static_cast<double>(before.rest_before)},
                {"n", static_cast<double>(times)},
                {"B", static_cast<double>(unit)},
                {"A", static_cast<double>(saved - times * unit)}};
  return out;
}

void judge(const TrialRecord& trial, const VariantRecord& variant, std::vector<Verdict>& out) {
  for (const RankRecord& rank : variant.ranks) {
    for (const Phase& phase : rank.steps.back().phases) {
      for (Statistic s : {Statistic::allocated, Statistic::active, Statistic::reserved}) {
        out.push_back(memory(variant, rank, phase, s));
      }
    }
    if (variant.role == Role::fixed) {
      for (Statistic s : {Statistic::active, Statistic::reserved}) {
        out.push_back(saving(trial, variant, rank.rank, s));
      }
      out.push_back(
          exactly(verdict("parity/loss", variant, rank.rank), 0, "bitwise equal to record_stream"));
      out.back().unit = "ulp";
      if (trial.mode == Mode::shapes) {
        out.back().status = Status::skip;
        out.back().measured.reset();
        out.back().why = "shapes has no numbers";
      }
    }
    out.push_back(exactly(verdict("rest/held", variant, rank.rank),
                          static_cast<double>(rank.rest_before), "what was there before the step"));
  }
}

}  // namespace

std::vector<Verdict> sample_verdicts(const TrialRecord& trial) {
  std::vector<Verdict> out;
  for (const VariantRecord& variant : trial.variants) {
    if (variant.role == Role::control) {
      out.push_back(verdict("control/race", variant, 0));
      out.back().formula = "at least one race";
      out.back().low = 1;
      out.back().measured = 3;
      out.back().unit = "races";
    } else {
      judge(trial, variant, out);
      if (variant.role == Role::fixed && trial.schedule == "lagging")
        out.push_back(step_saving(trial, variant));
    }
  }
  for (Verdict& v : out) {
    if (trial.schedule != "lagging" || v.variant != "separate_streams" ||
        v.name != "memory/form/reserved/backward")
      continue;
    v.status = Status::fail;
    v.low = v.high = *v.low - 2097152.0 * 30;
    v.why =
        "60.0 MiB more than the formula says: blocks of one stream's pool are not reused by the "
        "other";
  }
  return out;
}

}  // namespace tidemark
