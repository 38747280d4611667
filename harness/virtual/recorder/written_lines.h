// Code that a compiler has written while the program runs, and the lines of the program for which
// it stands.
#pragma once

#include <string>
#include <vector>

#include "harness/virtual/recorder/python_frames.h"

namespace tidemark::recorder {

/// The code of `file` stands for these frames of the program, outermost first, from `line` to the
/// next line of which this is said; for none if there are no frames.
void stands_for(const std::string& file, int line, std::vector<PythonLine> frames);
/// The frames for which the code at a line stands.
std::vector<PythonLine> behind(const PythonLine& written);

}  // namespace tidemark::recorder
