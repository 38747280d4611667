// Modules of the program: their paths, and those that run on each thread. Every caller has Python's
// lock, which guards them.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidemark::recorder {

/// The path of a module (the address of its object), until it is forgotten.
void name_module(const void* module, std::string_view path);
void forget_module(const void* module);

/// A module's forward begins on this thread. False, and nothing has begun: it has no path.
bool enter_module(const void* module);
void enter_module(std::string_view path);
/// The innermost one ends; nothing if none runs.
void leave_module();
std::size_t modules_that_run();
/// A record has begun while modules run on this thread: what is allocated from now on is theirs.
void resume_module();

}  // namespace tidemark::recorder
