// The report of a run whose ranks ended early: killed, hung, interrupted. Each has left its part of
// every finished variant in the session folder of the run (checkpoint.h).
#pragma once

#include <filesystem>
#include <optional>

#include "harness/ranks/launch.h"
#include "harness/record/record.h"

namespace tidemark {

/// The report of the session. Trials and variants that did not run say so with the reason; the
/// variant that was under way has an error that says how the ranks ended and where each of them
/// was. Empty where no rank had made a plan.
std::optional<Report> salvage(const std::filesystem::path& session, const Ending& ending);

/// Writes the report of a run that no process could finish, and removes its session. Does nothing
/// where `folder` is not that of such a run. Throws std::runtime_error in one line where a rank of
/// it is still alive, or where it had not begun.
void finish_run(const std::filesystem::path& folder);

/// Removes the session of a run that has its report, or never had a plan, and the folder of one
/// that left nothing.
void remove_session(const std::filesystem::path& folder);

}  // namespace tidemark
