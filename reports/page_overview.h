// The first page of report.html as HTML: how the run went, what failed, what every fix saves.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

/// Contents of <main>; `base` is another run whose figures stand beside, or null.
std::string page_overview(const Report& report, const Report* base);

}  // namespace tidemark
