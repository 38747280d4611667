// Places of autograd's nodes: which node runs on this thread, and where the forward made it.
#pragma once

#include "harness/virtual/recorder/state.h"

namespace tidemark::recorder {

/// Follows all operators of the process and all nodes of its backwards, once.
void follow_operators();

/// The node that runs on this thread, as State::names() has it; 0 outside a backward.
Number node_now();

/// The module that runs forward on this thread (Names::string); set by tidemark_record_module. In
/// an operator outside of all modules that makes a node of autograd: "outside modules".
Number module_now(Names& names);
void set_module_now(Number module);

}  // namespace tidemark::recorder
