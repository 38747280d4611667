// cuDNN as the virtual device sees it: calls are checked, cost time, and compute nothing. The
// prototypes and numbers are cuDNN 9's; enumerations travel as int.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/virtual/device/device.h"
#include "harness/virtual/device/handles.h"

#define CUDNN extern "C" [[gnu::visibility("default")]]

namespace tidemark::cudnn {

enum Status {
  success = 0,
  not_initialized = 1001,
  bad_param = 2000,
  null_pointer = 2002,
  not_finalized = 2004,
  out_of_bound = 2005,
  size_insufficient = 2006,
  shape_mismatch = 2008,
  attribute_type = 2010,
  not_supported = 3000,
  not_supported_pattern = 3001,
  not_supported_arch = 3007,
};

/// cudnnDataType_t, the types that PyTorch gives to cuDNN.
enum DataType { f32 = 0, f64 = 1, f16 = 2, i8 = 3, i32 = 4, u8 = 6, bf16 = 9, i64 = 10 };

struct Handle {
  device::StreamHandle stream = nullptr;
};

/// True if a caller's pointer is a live object that this library has made.
template <class T>
bool made(const T* object) {
  return device::handles<T>().has(object);
}

/// Bytes of an element; 0 for a type that is not known.
std::size_t bytes_of(int type);
/// The rate of products of this type. With `tensor_cores` those of fp32 are TF32's.
device::Number number_of(int type, bool tensor_cores);
/// Compute capability of the current device, 90 for 9.0.
int capability();

/// Keeps the text for cudnnGetLastErrorString and gives the status back.
Status fail(Status status, const std::string& text);
/// Like fail(), and notes the refusal of a call that a GPU would answer.
Status refuse(Status status, const std::string& text);

/// One operation on the handle's stream.
Status run(const Handle* handle, const char* name, const device::Cost& cost);

/// cuDNN's own figure of this memory is not public (device/modelled.h).
std::size_t modelled(std::size_t bytes);

}  // namespace tidemark::cudnn
