// Handle of a library that computes nothing, for overrides/: numbers are those of the operators'
// CPU kernels.
#pragma once

#include "harness/virtual/device/handles.h"
#include "harness/virtual/device/library_call.h"
#include "harness/virtual/stubs/refuse.h"

enum Status { success = 0, invalid_value = 3 };

struct Handle {
  tidemark::device::StreamHandle stream = nullptr;
};

/// True if a caller's pointer is a live object that this library has made.
template <class T>
static bool made(const T* object) {
  return tidemark::device::handles<T>().has(object);
}
template <class T>
static int make(T** place, const T& object = {}) {
  if (!place) return invalid_value;
  return *place = tidemark::device::handles<T>().make(object), success;
}
template <class T>
static int destroy(const T* object) {
  return !object || tidemark::device::handles<T>().destroy(object) ? success : invalid_value;
}
static int set_stream(Handle* handle, tidemark::device::StreamHandle stream) {
  return made(handle) ? (handle->stream = stream, success) : invalid_value;
}
static int compute(Handle* handle, const char* name) {
  if (!made(handle)) return invalid_value;
  if (tidemark::device::refused(name)) return not_supported;
  tidemark::device::enqueue(handle->stream, name, {});
  return success;
}

// Every function that computes (libraries.json, "computed").
#define COMPUTED(name)                                         \
  extern "C" [[gnu::visibility("default")]] int name(Handle*); \
  int name(Handle* handle) { return compute(handle, #name); }
