// Batch norm. Its workspaces and its reserve are 0: cuDNN does not publish them, and without an
// activation nothing has to be kept but the statistics, which are outputs.
#include "harness/virtual/cudnn/descriptors.h"

namespace tidemark::cudnn {
namespace {

Status no_memory(std::size_t* size) {
  if (!size) return fail(null_pointer, "the place for a size is null");
  *size = modelled(0);
  return success;
}

// Reads the input twice, for the statistics and for the result, and writes the result once.
Status run_norm(const Handle* handle, const char* name, const Shape* x, const Shape* scale,
                double passes, double epsilon) {
  if (!made(x) || !made(scale))
    return fail(null_pointer, "a tensor of batch norm is null or none of cuDNN's");
  if (epsilon < 0) return fail(bad_param, "epsilon of batch norm is below 0");
  if (x->sizes.size() < 2 || scale->sizes.size() < 2 || x->sizes[1] != scale->sizes[1])
    return fail(shape_mismatch, "batch norm has other channels than its scale");
  return run(handle, name,
             {.number = device::Number::f32, .bytes = passes * static_cast<double>(x->bytes())});
}

}  // namespace
}  // namespace tidemark::cudnn

using namespace tidemark::cudnn;

CUDNN int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(const Handle*, int, int,
                                                                   const Shape*, const Shape*,
                                                                   const Shape*, const Shape*,
                                                                   const void*, std::size_t* size) {
  return no_memory(size);
}
CUDNN int cudnnGetBatchNormalizationBackwardExWorkspaceSize(const Handle*, int, int, const Shape*,
                                                            const Shape*, const Shape*,
                                                            const Shape*, const Shape*,
                                                            const Shape*, const void*,
                                                            std::size_t* size) {
  return no_memory(size);
}
CUDNN int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(const Handle*, int, int, const void*,
                                                               const Shape*, std::size_t* size) {
  return no_memory(size);
}
CUDNN int cudnnBatchNormalizationForwardTrainingEx(const Handle* handle, int, int, const void*,
                                                   const void*, const Shape* x, const void*,
                                                   const Shape*, const void*, const Shape*, void*,
                                                   const Shape* scale, const void*, const void*,
                                                   double, void*, void*, double epsilon, void*,
                                                   void*, const void*, void*, std::size_t, void*,
                                                   std::size_t) {
  return run_norm(handle, "cudnn batch norm", x, scale, 3, epsilon);
}
CUDNN int cudnnBatchNormalizationBackwardEx(const Handle* handle, int, int, const void*,
                                            const void*, const void*, const void*, const Shape* x,
                                            const void*, const Shape*, const void*, const Shape*,
                                            const void*, const Shape*, void*, const Shape*, void*,
                                            const Shape* scale, const void*, const void*, void*,
                                            void*, double epsilon, const void*, const void*,
                                            const void*, void*, std::size_t, void*, std::size_t) {
  return run_norm(handle, "cudnn batch norm backward", x, scale, 5, epsilon);
}
CUDNN int cudnnBatchNormalizationForwardInference(const Handle* handle, int, const void*,
                                                  const void*, const Shape* x, const void*,
                                                  const Shape*, void*, const Shape* scale,
                                                  const void*, const void*, const void*,
                                                  const void*, double epsilon) {
  return run_norm(handle, "cudnn batch norm inference", x, scale, 2, epsilon);
}
