#include "harness/virtual/device/user_object.h"

#include <climits>
#include <map>
#include <memory>
#include <mutex>

#include "harness/virtual/device/immortal.h"

namespace tidemark::device {
namespace {

struct Object {
  void* value;
  cudaHostFn_t destroy;
  unsigned references;
};
struct Objects {
  std::mutex mutex;
  std::map<ObjectHandle, Object> all;
  std::uintptr_t made = 0;  // a handle is used once
};
Objects& objects() { return immortal<Objects>(); }

}  // namespace

cudaError_t create_object(ObjectHandle* object, void* value, cudaHostFn_t destroy, unsigned count,
                          unsigned flags) {
  if (!object || !destroy || count == 0 || count > INT_MAX ||
      flags != cudaUserObjectNoDestructorSync)
    return cudaErrorInvalidValue;
  Objects& o = objects();
  const std::lock_guard lock(o.mutex);
  *object = reinterpret_cast<ObjectHandle>(++o.made << 8 | 0x58);
  o.all.emplace(*object, Object{value, destroy, count});
  return cudaSuccess;
}

cudaError_t retain_object(ObjectHandle object, unsigned count) {
  Objects& o = objects();
  const std::lock_guard lock(o.mutex);
  const auto user_object = o.all.find(object);
  if (user_object == o.all.end() || count == 0 || count > INT_MAX) return cudaErrorInvalidValue;
  user_object->second.references += count;
  return cudaSuccess;
}

cudaError_t release_object(ObjectHandle object, unsigned count) {
  Object last{};
  {
    Objects& o = objects();
    const std::lock_guard lock(o.mutex);
    const auto user_object = o.all.find(object);
    if (user_object == o.all.end() || count == 0 || count > user_object->second.references)
      return cudaErrorInvalidValue;
    user_object->second.references -= count;
    if (user_object->second.references > 0) return cudaSuccess;
    last = user_object->second;
    o.all.erase(user_object);
  }
  last.destroy(last.value);
  return cudaSuccess;
}

cudaError_t retain_in_graph(GraphHandle graph, ObjectHandle object, unsigned count,
                            unsigned flags) {
  if (flags > cudaGraphUserObjectMove) return cudaErrorInvalidValue;
  if (cudaError_t error = retain_object(object, count)) return error;
  const auto release = [count](void* one) {
    release_object(static_cast<ObjectHandle>(one), count);
  };
  if (!keep_alive(graph, std::shared_ptr<void>(object, release))) return cudaErrorInvalidValue;
  return flags == cudaGraphUserObjectMove ? release_object(object, count) : cudaSuccess;
}

}  // namespace tidemark::device
