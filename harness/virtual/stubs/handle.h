// Handle of a library that computes nothing, for overrides/: numbers are those of the operators'
// CPU kernels.
#pragma once

#include "harness/virtual/device/library_call.h"
#include "harness/virtual/stubs/refuse.h"

enum Status { success = 0, invalid_value = 3 };

struct Handle {
  tidemark::device::StreamHandle stream = nullptr;
};

static int make_handle(Handle** handle) {
  return handle ? (*handle = new Handle, success) : invalid_value;
}
static int set_stream(Handle* handle, tidemark::device::StreamHandle stream) {
  return handle ? (handle->stream = stream, success) : invalid_value;
}
static int compute(Handle* handle, const char* name) {
  if (!handle) return invalid_value;
  if (tidemark::device::refused(name)) return not_supported;
  tidemark::device::enqueue(handle->stream, name, {});
  return success;
}

// Every function that computes (libraries.json, "computed").
#define COMPUTED(name)                                         \
  extern "C" [[gnu::visibility("default")]] int name(Handle*); \
  int name(Handle* handle) { return compute(handle, #name); }
