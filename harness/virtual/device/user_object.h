// Objects of the program that CUDA graphs keep alive (cudaUserObject).
#pragma once

#include <driver_types.h>

#include "harness/virtual/device/graph.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

using ObjectHandle = CUuserObject_st*;

/// `destroy` is called with `value` when the last of the references has gone: by the call that
/// releases it, where CUDA takes a thread of its own.
cudaError_t create_object(ObjectHandle* object, void* value, cudaHostFn_t destroy, unsigned count,
                          unsigned flags);
cudaError_t retain_object(ObjectHandle object, unsigned count);
cudaError_t release_object(ObjectHandle object, unsigned count);
/// The graph, and executable ones that are made of it, have so many references, new ones or, with
/// cudaGraphUserObjectMove, the caller's.
cudaError_t retain_in_graph(GraphHandle graph, ObjectHandle object, unsigned count, unsigned flags);

}  // namespace tidemark::device
#pragma GCC visibility pop
