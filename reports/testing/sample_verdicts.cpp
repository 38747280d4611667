#include "reports/testing/sample_parts.h"

namespace tidemark {
namespace {

Verdict verdict(const std::string& name, const VariantRecord& variant, int rank) {
  return {.name = name, .variant = variant.name, .rank = rank, .status = Status::pass};
}

Verdict memory(const VariantRecord& variant, const RankRecord& rank, const Phase& phase,
               Statistic s) {
  Verdict out =
      verdict(std::string("memory/form/") + name_of(s) + "/" + phase.name, variant, rank.rank);
  const auto measured = static_cast<double>(phase[s].peak);
  out.low = out.high = out.measured = measured;
  out.formula = "R + n*U + block(A)";
  const auto rest = static_cast<double>(rank.rest_before);
  out.values = {{"R", rest}, {"U", 67108864}, {"n", 2}, {"A", measured - rest - 2 * 67108864.0}};
  return out;
}

Verdict saving(const TrialRecord& trial, const VariantRecord& variant, int rank, Statistic s) {
  const auto peak = [&](const VariantRecord& v) {
    return static_cast<double>(
        (*v.ranks[static_cast<std::size_t>(rank)].phase("backward"))[s].peak);
  };
  Verdict out = verdict(std::string("saving/") + name_of(s) + "/backward", variant, rank);
  const double saved = peak(trial.variants[0]) - peak(variant);
  out.low = out.high = out.measured = saved;
  out.formula = "(2*L*k + L - 1)*U";
  out.values = {{"L", 8}, {"U", 67108864}, {"k", 0}};
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
      out.push_back(verdict("parity/loss", variant, rank.rank));
      out.back().measured = out.back().low = out.back().high = 0;
      out.back().unit = "ulp";
      out.back().formula = "bitwise equal to record_stream";
      if (trial.mode == Mode::shapes) {
        out.back().status = Status::skip;
        out.back().measured.reset();
        out.back().why = "shapes has no numbers";
      }
    }
    out.push_back(verdict("rest/held", variant, rank.rank));
    out.back().low = out.back().high = static_cast<double>(rank.rest_before);
    out.back().measured = static_cast<double>(rank.rest_after);
    out.back().formula = "what was there before the step";
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
