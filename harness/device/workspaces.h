// PyTorch's cuBLAS workspaces, as ATen/cuda/CUDAContextLight.h declares them. That header includes
// cuSPARSE's and cuBLAS's own, which the pinned packages do not hold; these declarations are all
// that is needed of it.
#pragma once

#include <c10/core/Allocator.h>

#include <map>
#include <shared_mutex>
#include <tuple>

namespace at::cuda {

struct WorkspaceMapWithMutex {
  std::map<std::tuple<void*, void*>, c10::DataPtr> map;  // by (handle, stream)
  std::shared_mutex mutex;
};
WorkspaceMapWithMutex& cublas_handle_stream_to_workspace();
WorkspaceMapWithMutex& cublaslt_handle_stream_to_workspace();
void clearCublasWorkspaces();

}  // namespace at::cuda
