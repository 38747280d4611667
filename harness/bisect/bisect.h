// `tidemark bisect`: the version of a package, or the commit, at which a program's memory changes.
#pragma once

#include "harness/record/record.h"

namespace tidemark {

/// argv[1] is "bisect"; `version` names this tidemark. Returns 0 if no peak changes, 1 if one does,
/// 3 if no version ran or a run says nothing, or 130 after Ctrl-C. Throws UsageError, Unavailable.
int bisect_program(int argc, char** argv, const RunRecord& version);

}  // namespace tidemark
