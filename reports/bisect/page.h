// Page of `tidemark bisect`.
#pragma once

#include <string>

#include "harness/record/bisect.h"

namespace tidemark {

/// The changes; the peak over the versions, stacked by kind, with each change above its version;
/// the table; each change as `compare` explains it; how it was found.
std::string bisect_page(const BisectRecord& record);

}  // namespace tidemark
