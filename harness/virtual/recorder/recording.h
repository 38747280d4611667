// The record of this process, if it has one.
#pragma once

#include "harness/virtual/recorder/state.h"

namespace tidemark::recorder {

/// nullptr: it has none.
State* recording();

}  // namespace tidemark::recorder
