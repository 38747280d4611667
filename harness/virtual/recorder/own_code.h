// Tidemark's Python in a program's process: it runs without a trace in Python's collector, and
// torch.compile does not look at it.
#pragma once

#include <sys/types.h>

namespace tidemark::recorder {

// Builtins of python_calls.cpp; arguments as an array.

/// set_eval_frame(function): torch's own, which names what torch.compile does with new frames.
void* set_eval_frame(void*, void* const* arguments, ssize_t count);
/// own(function) -> a builtin that calls it as code of tidemark's.
void* own(void*, void* const* arguments, ssize_t count);
/// around(function, original, before, after) -> whether from now on a call of `function`, a
/// function of Python, calls before(...), original(...) and after(...) with its arguments and makes
/// no object of its own. `before` and `after` are code of tidemark's, or None; `after` is called if
/// `original` raises, too. The result is that of `original`.
void* around(void*, void* const* arguments, ssize_t count);
/// call_around(a new object, original, before, after) -> a builtin that does so.
void* call_around(void*, void* const* arguments, ssize_t count);
/// around_module(function, original, compiler, outermost, unnamed, end): likewise, of
/// Module.__call__: outermost(...) or unnamed(...) where the module has no name yet, and end() when
/// the outermost one has run. `compiler`: the dictionary of torch.compiler.
void* around_module(void*, void* const* arguments, ssize_t count);
/// untrack(*objects): Python's collector no longer looks at them.
void* untrack(void*, void* const* arguments, ssize_t count);
/// drop_spare(): see collector.h.
void* drop_spare(void*, void* const* arguments, ssize_t count);

}  // namespace tidemark::recorder
