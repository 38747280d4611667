// report.html: one file that needs no network, a few megabytes however large the run. Its sources
// are the modules in page/, put together at build time; its data is page_data.h.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

std::string html(const Report& report);

}  // namespace tidemark
