// Operators that a program registers later: torchvision's, an extension's, a TORCH_LIBRARY of a
// library that is loaded while a mode is on.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <vector>

namespace tidemark::operators {

/// From now on `arrived` gets the names of operators that are defined later, on the thread that
/// calls the next operator, before that runs: by then a library has registered its kernels.
/// Replaces the function before.
void follow_registrations(std::function<void(std::vector<c10::OperatorName>)> arrived);

}  // namespace tidemark::operators
