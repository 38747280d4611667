// Handles, versions, texts of errors.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "harness/virtual/cudnn/cudnn.h"
#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/library_call.h"
#include "harness/virtual/device/modelled.h"

namespace tidemark::cudnn {
namespace {
// That of the torch which the platform is built with; a program of another torch says its own.
std::atomic<std::size_t> version{91900};
thread_local std::string last_error;
}  // namespace

std::size_t bytes_of(int type) {
  switch (type) {
    case f64:
    case i64:
      return 8;
    case f32:
    case i32:
      return 4;
    case f16:
    case bf16:
      return 2;
    case i8:
    case u8:
      return 1;
    default:
      return 0;
  }
}

device::Number number_of(int type, bool tensor_cores) {
  switch (type) {
    case f64:
      return device::Number::f64;
    case f32:
      return tensor_cores ? device::Number::tf32 : device::Number::f32;
    case f16:
      return tensor_cores ? device::Number::f16 : device::Number::f32;
    case bf16:
      return tensor_cores ? device::Number::bf16 : device::Number::f32;
    case i8:
    case u8:
      return device::Number::i8;
    default:
      return device::Number::other;
  }
}

int capability() {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  device::attribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  device::attribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return 10 * major + minor;
}

Status fail(Status status, const std::string& text) {
  last_error = text;
  return status;
}

Status refuse(Status status, const std::string& text) {
  device::note_refusal("CUDNN_STATUS_NOT_SUPPORTED");  // also of its further kinds
  return fail(status, text);
}

Status run(const Handle* handle, const char* name, const device::Cost& cost) {
  if (!made(handle)) return fail(not_initialized, "the handle is none of cuDNN's");
  if (device::refused(name))
    return fail(not_supported, std::string(name) + " computes nothing on the virtual device");
  device::enqueue(handle->stream, name, cost);
  return success;
}

std::size_t modelled(std::size_t bytes) { return device::modelled("cuDNN", bytes); }

}  // namespace tidemark::cudnn

using namespace tidemark::cudnn;

CUDNN int cudnnCreate(Handle** handle) {
  if (!handle) return fail(null_pointer, "cudnnCreate: the place for the handle is null");
  *handle = tidemark::device::handles<Handle>().make();
  return success;
}
CUDNN int cudnnDestroy(Handle* handle) {
  if (!handle || tidemark::device::handles<Handle>().destroy(handle)) return success;
  return fail(bad_param, "cudnnDestroy: the handle is none of cuDNN's");
}
CUDNN int cudnnSetStream(Handle* handle, tidemark::device::StreamHandle stream) {
  if (!made(handle)) return fail(not_initialized, "cudnnSetStream: the handle is none of cuDNN's");
  handle->stream = stream;
  return success;
}
CUDNN int cudnnGetStream(const Handle* handle, tidemark::device::StreamHandle* stream) {
  if (!made(handle) || !stream)
    return fail(null_pointer, "cudnnGetStream: an argument is null or no handle");
  *stream = handle->stream;
  return success;
}

CUDNN std::size_t cudnnGetVersion() { return version; }
CUDNN std::size_t cudnnGetCudartVersion() { return CUDART_VERSION; }
/// libraryPropertyType: major, minor, patch.
CUDNN int cudnnGetProperty(int which, int* value) {
  if (!value) return fail(null_pointer, "cudnnGetProperty: the place for the value is null");
  const auto number = static_cast<int>(version.load());
  if (which < 0 || which > 2) return fail(bad_param, "cudnnGetProperty: no such property");
  *value = which == 0 ? number / 10000 : which == 1 ? number / 100 % 100 : number % 100;
  return success;
}
/// The version that the program's torch was compiled with (90100 for 9.1.0).
CUDNN void tidemark_cudnn_set_version(std::size_t number) { version = number; }

CUDNN const char* cudnnGetErrorString(int status) {
  switch (status) {
    case success:
      return "CUDNN_STATUS_SUCCESS";
    case not_initialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case bad_param:
      return "CUDNN_STATUS_BAD_PARAM";
    case null_pointer:
      return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case not_finalized:
      return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case out_of_bound:
      return "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND";
    case size_insufficient:
      return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case shape_mismatch:
      return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case attribute_type:
      return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case not_supported_pattern:
      return "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN";
    case not_supported_arch:
      return "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH";
    default:
      return "CUDNN_STATUS_NOT_SUPPORTED";
  }
}
CUDNN void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (!message || size == 0) return;
  const std::size_t length = std::min(last_error.size(), size - 1);
  std::memcpy(message, last_error.data(), length);
  message[length] = 0;
  last_error.clear();
}
