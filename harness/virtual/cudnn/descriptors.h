// Descriptors of cuDNN's older interface.
#pragma once

#include <vector>

#include "harness/virtual/cudnn/convolution.h"

namespace tidemark::cudnn {

/// Of tensors and of filters; a filter has a format.
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

}  // namespace tidemark::cudnn
