// Made-up results of `tidemark fit`, for looking at their page and for the browser's test.
#pragma once

#include <filesystem>

namespace tidemark {

/// Folders fit_one (a variable on three GPUs), fit_two (two variables, one of which is a list),
/// fit_none (nothing fits, with advice), fit_refused (a refused value, a name that is markup): each
/// with report.html and fit.json.
void write_fits(const std::filesystem::path& folder);

}  // namespace tidemark
