// Descriptors of cuDNN's older interface.
#pragma once

#include <vector>

#include "harness/virtual/cudnn/convolution.h"

namespace tidemark::cudnn {

/// Shape of a tensor or of a filter; a filter has a format.
struct Shape {
  int type = f32, format = 0;
  std::vector<int> sizes, strides;

  std::size_t bytes() const;
};

struct Dropout {
  float probability = 0;
  void* states = nullptr;
};

/// A sampler's or a grid's sizes.
struct Sampler {
  int type = f32;
  std::vector<int> sizes;
};

template <class T>
Status create(T** descriptor) {
  if (!descriptor) return fail(null_pointer, "the place for a descriptor is null");
  *descriptor = device::handles<T>().make();
  return success;
}

template <class T>
Status destroy(T* descriptor) {
  if (!descriptor || device::handles<T>().destroy(descriptor)) return success;
  return fail(bad_param, "the descriptor is none of cuDNN's, or was destroyed before");
}

}  // namespace tidemark::cudnn

/// The functions that make and delete descriptors of a kind.
#define KIND(Name, Type)                                                                    \
  CUDNN int cudnnCreate##Name##Descriptor(Type** descriptor) { return create(descriptor); } \
  CUDNN int cudnnDestroy##Name##Descriptor(Type* descriptor) { return destroy(descriptor); }
