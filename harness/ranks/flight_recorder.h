// A rank's flight recorder: where it is, which collectives and which operators it called last, in a
// file of the run's session that the launching process can read whatever becomes of the rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tidemark::flight {

/// Opens this rank's recorder in the session folder (empty: it is in this process's memory alone)
/// and follows PyTorch's operators from now on: the outermost of each thread, backward nodes too.
void open(const std::filesystem::path& session, int rank);
/// Notes what this rank works on ("fsdp_prefetch/smoke/r4/math/instant stash, step 2").
void place(const std::string& text);
/// Notes the exception in which the current work has ended, until the next place. Other ranks that
/// end before this one read it.
void threw(const std::string& what);
/// It enters a collective ("all_gather 7 of 4096 x Float on communicator 1 of 4 ranks, its call
/// 9"), and is through.
void enter(const std::string& call);
void leave();

/// Grows with every operator and every collective, as long as this process gets further.
std::uint64_t beats();

/// The sentence of this process's recorder ("in fsdp_prefetch/..., step 2, after all_gather 6 ...,
/// last operators aten::mm, ..."); empty before a place was named.
std::string here();

}  // namespace tidemark::flight
