// The torch of the program that `tidemark fit` runs.
#pragma once

#include <string>

#include "harness/fit/options.h"

namespace tidemark {

/// Its version. Prepares the libraries for it where they do not exist yet. Throws UsageError.
std::string torch_of(const FitOptions& fit);

}  // namespace tidemark
