// Changes of settings and of a program that were tried on a recording, as a table and sentences.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reports/program/explanation.h"

namespace tidemark {

/// Changes that were tried, by their names ("as recorded", "expandable_segments:True",
/// "model.py:88 x0.5"), with the answers of the allocator (harness/cli/what_if.h).
using ChangesTried = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// "yes, up to the request that failed: 6.1 GiB to spare", "no: ...", "not known: ...".
std::string answer_text(const nlohmann::ordered_json& answer, const ExplainedDevice& of);

/// The reason for which all changes were refused, which no table needs; empty: there are several.
std::string common_refusal(const ChangesTried& changes);

/// A row for each change; the first is the header.
std::vector<std::vector<std::string>> changes_table(const ChangesTried& changes,
                                                    const ExplainedDevice& of);

/// What the answers assume, a sentence each.
std::vector<std::string> assumptions(const ChangesTried& changes, const ExplainedDevice& of);

}  // namespace tidemark
