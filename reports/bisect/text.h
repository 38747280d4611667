// What `tidemark bisect` says, for the terminal and for Markdown.
#pragma once

#include <string>
#include <vector>

#include "harness/record/bisect.h"
#include "reports/html.h"

namespace tidemark {

/// A line for each change: "torch 2.10.0 -> 2.11.0: reserved 18.6 GiB -> 22.2 GiB, +3.6 GiB:
/// activations, forward model.py:88 (+3.4 GiB), cuBLAS workspaces (+204.0 MiB)"; one that nothing
/// has changed; then how many ran.
std::vector<std::string> bisect_lines(const BisectRecord& record);
/// For a heading: "2 changes, the largest with torch 2.10.0 -> 2.11.0: +3.6 GiB reserved".
std::string bisect_headline(const BisectRecord& record);
/// The line of one change.
std::string change_line(const BisectRecord& record, const BisectChange& change);
/// A row for each version that was tried; the first is the header.
std::vector<std::vector<std::string>> bisect_rows(const BisectRecord& record);
/// Of each change the document of `compare`: the cause, then from the old peak to the new one.
std::vector<Section> change_sections(const BisectRecord& record, std::size_t most);

std::string bisect_text(const BisectRecord& record);
std::string bisect_markdown(const BisectRecord& record);

}  // namespace tidemark
