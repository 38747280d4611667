#include "harness/record/join.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace tidemark {
namespace {

void worsen(std::optional<Distance>& mine, const std::optional<Distance>& theirs) {
  if (!theirs) return;
  if (!mine) mine.emplace();
  mine->ulps = std::max(mine->ulps, theirs->ulps);
  mine->absolute = std::max(mine->absolute, theirs->absolute);
  mine->relative = std::max(mine->relative, theirs->relative);
}

void worsen(GradientError& mine, const GradientError& theirs) {
  worsen(mine.baseline, theirs.baseline);
  worsen(mine.reference, theirs.reference);
  if (theirs.first >= 0 && (mine.first < 0 || theirs.first < mine.first)) mine.first = theirs.first;
}

void worse(SweepPoint& mine, const SweepPoint& theirs) {
  mine.allocated = std::max(mine.allocated, theirs.allocated);
  mine.active = std::max(mine.active, theirs.active);
  mine.reserved = std::max(mine.reserved, theirs.reserved);
  mine.step_time_ns = std::max(mine.step_time_ns, theirs.step_time_ns);
}

}  // namespace

void worse(std::vector<GradientError>& rows, const GradientError& row) {
  const auto match = std::ranges::find(rows, row.name, &GradientError::name);
  if (match == rows.end())
    rows.push_back(row);
  else
    worsen(*match, row);
}

void join(TrialRecord& mine, TrialRecord theirs) {
  const auto alike = [](const VariantRecord& a, const VariantRecord& b) {
    return a.sweep.size() == b.sweep.size() && a.growth.size() == b.growth.size();
  };
  if (!std::ranges::equal(mine.variants, theirs.variants, alike))
    throw std::runtime_error("the parts of " + mine.name() +
                             " do not belong together: the files of a rank were changed");
  for (std::size_t v = 0; v < mine.variants.size(); ++v) {
    std::ranges::move(theirs.variants.at(v).ranks, std::back_inserter(mine.variants[v].ranks));
    for (const GradientError& row : theirs.variants.at(v).gradients)
      worse(mine.variants[v].gradients, row);
    for (std::size_t i = 0; i < mine.variants[v].sweep.size(); ++i)
      worse(mine.variants[v].sweep[i], theirs.variants.at(v).sweep.at(i));
    for (std::size_t i = 0; i < mine.variants[v].growth.size(); ++i)
      if (auto& curve = theirs.variants.at(v).growth.at(i); !curve.points.empty())
        mine.variants[v].growth[i] = std::move(curve);
  }
  std::ranges::move(theirs.verdicts, std::back_inserter(mine.verdicts));
}

}  // namespace tidemark
