// junit.xml: one suite a scenario, one case a verdict. A variant that ended in error is a case of
// its own, a trial that did not run a skipped one.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

std::string junit(const Report& report);

}  // namespace tidemark
