// benchmark.json in Google Benchmark's format, for its compare.py and other tools that read it.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

/// One entry a trial and variant, "scenario/size/rN/mode/schedule/variant": real_time is the
/// typical step time in ns on the device's clock, peak_allocated, peak_active, peak_reserved
/// (bytes, worst rank) are counters.
std::string benchmark_json(const Report& report);

}  // namespace tidemark
