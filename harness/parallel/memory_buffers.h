// Persistent communication buffers by name: made once, used again and again, never freed between
// steps. A program that hands one out as if it were a fresh tensor aliases it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace tidemark {

class MemoryBuffers {
 public:
  /// The buffer's first elements in this shape; it grows to the largest that was asked for. All
  /// that share a name share memory and version counter, and one element type.
  at::Tensor get(const std::string& name, at::IntArrayRef sizes, at::ScalarType type);

 private:
  std::map<std::string, at::Tensor> buffers_;
};

}  // namespace tidemark
