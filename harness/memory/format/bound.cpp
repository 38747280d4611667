#include "harness/memory/format/bound.h"

#include <algorithm>
#include <string>

#include "harness/memory/format/condense.h"
#include "harness/memory/format/entries.h"

namespace tidemark::recorder {

// The last allocation is not in the figures yet.
std::uint32_t Bound::reached() {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < kDevices; ++i) {
    const Figures& f = file_.moment().devices[i];
    const std::int64_t peak = std::max(f.active_peak, f.active + rounded(f.unsettled));
    if (peak > peaks_[i] || f.ooms > ooms_[i]) out |= 1U << i;
    peaks_[i] = std::max(peaks_[i], peak), ooms_[i] = f.ooms;
  }
  return out;
}

void Bound::next(std::size_t repeated, bool counts) {
  const std::uint64_t size = file_.size();
  // Steps that are counted are no longer in the file.
  while (!parts_.empty() && parts_.back().begin >= size) parts_.pop_back();
  const std::uint32_t now = reached();
  if (!parts_.empty()) parts_.back().reached |= now;
  if (repeated > parts_.size()) {
    parts_.clear();  // what is repeated begins in the first steps
  } else if (repeated > 1) {
    const auto first = parts_.end() - static_cast<std::ptrdiff_t>(repeated);
    for (auto part = first + 1; part != parts_.end(); ++part) first->reached |= part->reached;
    parts_.erase(first + 1, parts_.end());
  }
  if (!counts && !given_up_ && !parts_.empty() && size - parts_.front().begin > limit_) condense();
  if (file_.size() >= whole_) parts_.push_back({file_.size(), 0, false});
}

std::vector<bool> Bound::kept() const {
  std::vector<bool> out(parts_.size());
  const std::size_t last = parts_.size() - std::min(kLast, parts_.size());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(last), out.end(), true);
  std::uint32_t seen = 0;
  for (std::size_t i = parts_.size(); i-- > 0;) {
    if ((parts_[i].reached & ~seen) == 0) continue;
    seen |= parts_[i].reached;
    out[i] = true;
    if (i > 0) out[i - 1] = true;  // its last allocation may be known in the step after only
  }
  return out;
}

void Bound::condense() {
  const std::vector<bool> keep = kept();
  std::string entries;
  std::vector<Part> parts;
  const std::uint64_t begin = parts_.front().begin;
  for (std::size_t i = 0; i < parts_.size();) {
    std::size_t end = i + 1;
    while (!keep[i] && end < parts_.size() && !keep[end]) ++end;
    const std::uint64_t to = end < parts_.size() ? parts_[end].begin : file_.size();
    const std::string read = file_.read(parts_[i].begin, to);
    if (read.empty()) return;
    const bool again = !keep[i] && !(end == i + 1 && parts_[i].is_condensed);
    parts.push_back(
        {begin + entries.size(), keep[i] ? parts_[i].reached : 0, again || parts_[i].is_condensed});
    try {
      entries += again ? condensed(read) : read;
    } catch (const CutOff&) {  // the recorder is wrong about its file: it stays as it is
      given_up_ = true;
      return;
    }
    i = end;
  }
  if (entries.size() < file_.size() - begin) {
    given_up_ = !file_.rewrite(begin, entries);  // a full file system
    if (given_up_) return;
    parts_ = std::move(parts);
  }
  limit_ = file_.size() - begin + growth_;
}

}  // namespace tidemark::recorder
