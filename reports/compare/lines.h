// Lines of Python of two versions of a program, by what they say.
#pragma once

#include "harness/record/program.h"

namespace tidemark {

/// `before` with each of its lines named as `after` names it, so that a line which only stands
/// elsewhere is the same one. Lines are paired by their function and their text, in the order of
/// the file, whose name may be another; their numbers tell equal ones apart. A line whose text has
/// changed is paired by its place between others of its function. Lines without a text are paired
/// by their numbers. One that is
/// gone, and whose number another line of its function has now, is called "as it was".
AliveAtPeak at_lines_of(AliveAtPeak before, const AliveAtPeak& after);

}  // namespace tidemark
