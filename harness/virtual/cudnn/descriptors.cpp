// Tensors, filters, dropout, spatial transformers.
#include "harness/virtual/cudnn/descriptors.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "harness/virtual/device/attributes.h"

namespace tidemark::cudnn {

std::size_t Shape::bytes() const {
  std::size_t count = 1;
  for (const int size : sizes) count *= static_cast<std::size_t>(size);
  return count * bytes_of(type);
}

namespace {

bool is_shape(int type, int dims, const int* sizes) {
  return bytes_of(type) > 0 && dims >= 1 && dims <= 8 && sizes &&
         std::all_of(sizes, sizes + dims, [](int size) { return size > 0; });
}

Status give(const std::vector<int>& from, int wanted, int* to) {
  if (to)
    std::copy_n(from.begin(),
                std::min<std::size_t>(from.size(), static_cast<std::size_t>(std::max(wanted, 0))),
                to);
  return success;
}

// 24 bytes for each thread that the multiprocessors hold: 6,488,064 on an H100 of 132 times 2,048
// threads (reports/measured/h100-80g/lstm_two_layers.json.gz). cuDNN documents no size.
std::size_t states_size() {
  int device = 0, processors = 0, threads = 0;
  cudaGetDevice(&device);
  device::attribute(&processors, cudaDevAttrMultiProcessorCount, device);
  device::attribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device);
  return 24 * static_cast<std::size_t>(processors) * static_cast<std::size_t>(threads);
}

Status sampled(const Handle* handle, const char* name, const Sampler* sampler) {
  if (!made(sampler)) return fail(null_pointer, "the sampler is null or none of cuDNN's");
  double bytes = static_cast<double>(bytes_of(sampler->type));
  for (const int size : sampler->sizes) bytes *= size;
  return run(handle, name, {.number = device::Number::f32, .bytes = 3 * bytes});
}

}  // namespace
}  // namespace tidemark::cudnn

using namespace tidemark::cudnn;

KIND(Tensor, Shape)
KIND(Filter, Shape)
KIND(Dropout, Dropout)
KIND(SpatialTransformer, Sampler)

CUDNN int cudnnSetTensorNdDescriptor(Shape* shape, int type, int dims, const int* sizes,
                                     const int* strides) {
  if (!made(shape) || !strides)
    return fail(null_pointer, "a tensor's descriptor or strides are null or none of cuDNN's");
  if (!is_shape(type, dims, sizes))
    return fail(bad_param, "a tensor has a type or size unknown to cuDNN");
  *shape = {.type = type, .sizes = {sizes, sizes + dims}, .strides = {strides, strides + dims}};
  return success;
}
CUDNN int cudnnGetTensorNdDescriptor(const Shape* shape, int wanted, int* type, int* dims,
                                     int* sizes, int* strides) {
  if (!made(shape)) return fail(null_pointer, "a tensor's descriptor is null or none of cuDNN's");
  if (type) *type = shape->type;
  if (dims) *dims = static_cast<int>(shape->sizes.size());
  give(shape->sizes, wanted, sizes);
  return give(shape->strides, wanted, strides);
}
CUDNN int cudnnSetFilterNdDescriptor(Shape* shape, int type, int format, int dims,
                                     const int* sizes) {
  if (!made(shape)) return fail(null_pointer, "a filter's descriptor is null or none of cuDNN's");
  if (!is_shape(type, dims, sizes))
    return fail(bad_param, "a filter has a type or size unknown to cuDNN");
  *shape = {.type = type, .format = format, .sizes = {sizes, sizes + dims}, .strides = {}};
  return success;
}
CUDNN int cudnnGetFilterNdDescriptor(const Shape* shape, int wanted, int* type, int* format,
                                     int* dims, int* sizes) {
  if (!made(shape)) return fail(null_pointer, "a filter's descriptor is null or none of cuDNN's");
  if (type) *type = shape->type;
  if (format) *format = shape->format;
  if (dims) *dims = static_cast<int>(shape->sizes.size());
  return give(shape->sizes, wanted, sizes);
}

CUDNN int cudnnDropoutGetStatesSize(const Handle* handle, std::size_t* size) {
  if (!made(handle) || !size)
    return fail(null_pointer, "the handle or the place for a size is null or none of cuDNN's");
  *size = modelled(states_size());
  return success;
}
CUDNN int cudnnSetDropoutDescriptor(Dropout* dropout, const Handle* handle, float probability,
                                    void* states, std::size_t size, unsigned long long) {
  if (!made(dropout))
    return fail(null_pointer, "the descriptor of dropout is null or none of cuDNN's");
  if (probability < 0 || probability > 1) return fail(bad_param, "dropout is not within 0 and 1");
  *dropout = {probability, states};
  if (!states) return success;
  if (size < states_size()) return fail(size_insufficient, "the states of dropout are too short");
  return run(handle, "cudnn dropout states", {.bytes = static_cast<double>(size)});
}
CUDNN int cudnnRestoreDropoutDescriptor(Dropout* dropout, const Handle*, float probability,
                                        void* states, std::size_t size, unsigned long long) {
  if (!made(dropout))
    return fail(null_pointer, "the descriptor of dropout is null or none of cuDNN's");
  if (states && size < states_size())
    return fail(size_insufficient, "the states of dropout are too short");
  *dropout = {probability, states};
  return success;
}

CUDNN int cudnnSetSpatialTransformerNdDescriptor(Sampler* sampler, int, int type, int dims,
                                                 const int* sizes) {
  if (!made(sampler)) return fail(null_pointer, "the sampler is null or none of cuDNN's");
  if (!is_shape(type, dims, sizes))
    return fail(bad_param, "a sampler has a type or size unknown to cuDNN");
  *sampler = {type, {sizes, sizes + dims}};
  return success;
}
CUDNN int cudnnSpatialTfGridGeneratorForward(const Handle* handle, const Sampler* sampler,
                                             const void*, void*) {
  return sampled(handle, "cudnn affine grid", sampler);
}
CUDNN int cudnnSpatialTfGridGeneratorBackward(const Handle* handle, const Sampler* sampler,
                                              const void*, void*) {
  return sampled(handle, "cudnn affine grid backward", sampler);
}
CUDNN int cudnnSpatialTfSamplerForward(const Handle* handle, const Sampler* sampler, const void*,
                                       const Shape*, const void*, const void*, const void*,
                                       const Shape*, void*) {
  return sampled(handle, "cudnn sampler", sampler);
}
CUDNN int cudnnSpatialTfSamplerBackward(const Handle* handle, const Sampler* sampler, const void*,
                                        const Shape*, const void*, const void*, const Shape*, void*,
                                        const void*, const Shape*, const void*, const void*,
                                        const void*, void*) {
  return sampled(handle, "cudnn sampler backward", sampler);
}
