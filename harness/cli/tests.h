// The report of a run of pytest (python/tidemark/report.py): while it goes on, its folder has the
// file tests.jsonl, to which pytest adds the trial of each test that has ended.
#pragma once

#include <filesystem>

namespace tidemark {

/// Writes the report of the tests in `folder`, and removes tests.jsonl. Does nothing where `folder`
/// has no such file. Throws std::runtime_error in one line where pytest is still alive, or a line
/// is no part of a record; a last line that is cut off is left out.
void finish_tests(const std::filesystem::path& folder);

}  // namespace tidemark
