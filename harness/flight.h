// A rank's flight recorder: where it is and which collectives it called last, in a file of the
// run's session that the launching process can read whatever becomes of the rank.
#pragma once

#include <filesystem>
#include <string>

namespace tidemark::flight {

/// Opens this rank's recorder in the session folder; without a session nothing is recorded.
void open(const std::filesystem::path& session, int rank);
/// What this rank works on ("fsdp_prefetch/smoke/r4/math/instant stash, step 2").
void place(const std::string& text);
/// It enters a collective ("all_gather 7 of 4096 x Float on 4 ranks"), and is through.
void enter(const std::string& call);
void leave();

/// What the recorders of a session say, a sentence a rank; empty without any.
std::string read(const std::filesystem::path& session);

}  // namespace tidemark::flight
