// NCCL's messages about itself, as NCCL_DEBUG (VERSION, WARN, INFO), NCCL_DEBUG_SUBSYS and
// NCCL_DEBUG_FILE ask for them: on stdout, or in a file whose name may hold %h and %p.
#pragma once

#include <fmt/format.h>

#include <string>

namespace tidemark::nccl {

/// NCCL's subsystems with messages here.
enum class Subsystem { init, coll };
enum class Level { none, version, warn, info };

/// The line is to be said.
bool says(Level level, Subsystem subsystem = Subsystem::init);
/// Says "HOST:PROCESS:THREAD [DEVICE] NCCL INFO text", or WARN.
void say(Level level, int device, const std::string& text);
/// Once a process: the version.
void say_version();
/// Reads the environment anew (ncclResetDebugInit).
void reload_debug();

}  // namespace tidemark::nccl
