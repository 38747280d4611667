// Places of autograd's nodes: which node runs on this thread, and where the forward made it.
#pragma once

#include "harness/virtual/recorder/state.h"

namespace tidemark::recorder {

/// Follows all nodes of autograd that the process makes and runs, once.
void follow_nodes();

/// Address of a tensor's data on a GPU; nullptr: the tensor has none there.
const void* address_on_gpu(const c10::TensorImpl& tensor);

/// The node that runs on this thread, as State::names() has it; 0 outside a backward.
Number node_now();

/// True if that node has a place of a forward, which AccumulateGrad has not.
bool node_now_has_place();

/// The module that runs forward on this thread (Names::string); set by modules.h.
/// Outside of all modules it is "outside modules" in an operator that has made a node of autograd:
/// while the instruction of Python that made the thread's last node is still the one that runs. So
/// it is in the forward of a torch.autograd.Function, which makes its node first.
/// The thread must have numbered its stack just before (PythonStacks::now).
Number module_now(State& state);
void set_module_now(Number module);

}  // namespace tidemark::recorder
