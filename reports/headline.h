// Headline of a run, in the words that the terminal, the page and summary.md share.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// One line: "Incomplete: 7 of 12 trials finished; rank 2 was killed (signal 9) in
/// frozen_reshard/never", "3 of 7,622 verdicts failed", "All 7,619 verdicts passed". "All" is said
/// only where no trial and no verdict was skipped. For programs: the finding
/// (program/finding.h) and how many checks passed or failed.
std::string headline(const Report& report);
/// Its colour: fail, skip where nothing was judged, else pass.
Status headline_status(const Report& report);

/// "8 of 12 trials finished, 4 not run; 7,619 verdicts passed, 0 failed, 33 skipped".
std::string counts_text(const Report& report);

/// The controls of a scenario, each counted once over all its trials: missed where it went
/// unnoticed in one, else caught where it was caught in one, else not judged.
struct ControlTally {
  struct Untried {
    std::string why;
    std::vector<std::string> names;
  };
  std::string scenario;
  int caught = 0;
  std::vector<std::string> missed;
  std::vector<Untried> untried;  // by reason
  int count() const;
  std::string text() const;  // "5 of 7 controls caught, 2 not judged (early, late: ...)"
};
std::vector<ControlTally> control_tallies(const Report& report);

/// Trials that were skipped or did not run, those of one size and reason in one line: "skipped:
/// tp_buffer_reuse/scale (3 trials): ...".
std::vector<std::string> gaps(const Report& report);

/// Lines about variants whose allocator reserved more than the profile's GPU has:
/// "tp_buffer_reuse/seed (ran with 1 TiB): separate reserves 90.1 GiB and does not fit h100-80g (80
/// GiB), recompute fits".
std::vector<std::string> fits_text(const Report& report);

}  // namespace tidemark
