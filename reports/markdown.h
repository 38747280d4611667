// summary.md: for a pull request or a CI job's summary. What failed comes first.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

std::string markdown(const Report& report);

/// Text that Markdown and HTML leave alone.
std::string markdown_text(const std::string& text);

}  // namespace tidemark
