// The page of a pytest run (python/tidemark/report.py), in which each test is a trial.
#pragma once

#include <string>

#include "harness/record/record.h"
#include "reports/html.h"

namespace tidemark {

/// True if every trial is a test.
bool is_of_tests(const Report& report);

/// Tests with peak, limit or claim and result, those that failed first, with what was alive then;
/// the change of each peak where `base` is given, and `changes`, or null.
TextMaker tests_page(const Report& report, const Report* base, const Changes* changes);

}  // namespace tidemark
