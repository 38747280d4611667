// summary.md: for a pull request or a CI job's summary. What failed comes first.
#pragma once

#include <string>

#include "harness/record.h"

namespace tidemark {

std::string markdown(const Report& report);

}  // namespace tidemark
