// The functions of the backend interface.
#include "harness/virtual/cudnn/backend.h"

namespace tidemark::cudnn {
namespace {

/// A program's handle of a descriptor. Finalised descriptors are shared between those that name
/// them, as cuDNN's are: a program destroys its handles in any order.
struct Opaque {
  std::shared_ptr<Descriptor> descriptor;
};

std::size_t size_of(int type) {
  switch (type) {
    case of_handle:
    case of_int64:
    case of_double:
    case of_pointer:
    case of_descriptor:
      return 8;
    case of_boolean:
    case of_char:
      return 1;
    case of_fraction:
      return 16;
    default:
      return type >= 0 && type <= last_attribute_type ? 4 : 0;
  }
}

Status set(Descriptor& d, int name, int type, std::int64_t count, const void* elements) {
  const std::size_t size = size_of(type);
  if (size == 0) return fail(attribute_type, "no such type of an attribute");
  if (count < 0 || (count > 0 && !elements)) return fail(bad_param, "an attribute has no elements");
  if (d.finalized) return fail(bad_param, "the descriptor is finalized already");
  Attribute a{.type = type, .count = count};
  const auto n = static_cast<std::size_t>(count);
  if (type == of_descriptor) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto* child = static_cast<const Opaque* const*>(elements)[i];
      if (!child) return fail(null_pointer, "an attribute names a null descriptor");
      if (!child->descriptor->finalized)
        return fail(not_finalized, "an attribute names a descriptor that is not finalized");
      a.descriptors.push_back(child->descriptor);
    }
  } else if (n > 0) {
    const auto* first = static_cast<const std::byte*>(elements);
    a.bytes.assign(first, first + n * size);
  }
  d.attributes[name] = std::move(a);
  return success;
}

Status get(const Descriptor& d, int name, int type, std::int64_t wanted, std::int64_t* count,
           void* elements) {
  const auto attribute = d.attributes.find(name);
  if (attribute == d.attributes.end())
    return fail(not_supported, "the descriptor has no attribute " + std::to_string(name));
  const Attribute& a = attribute->second;
  if (a.type != type) return fail(attribute_type, "the attribute has another type");
  if (count) *count = a.count;
  if (!elements || wanted <= 0) return success;
  const auto n = static_cast<std::size_t>(std::min(wanted, a.count));
  if (type != of_descriptor) {
    if (n > 0) std::memcpy(elements, a.bytes.data(), n * size_of(type));
    return success;
  }
  for (std::size_t i = 0; i < n; ++i) {
    auto* place = static_cast<Opaque* const*>(elements)[i];
    if (!place) return fail(null_pointer, "the place for a descriptor is null");
    place->descriptor = std::make_shared<Descriptor>(*a.descriptors[i]);
  }
  return success;
}

}  // namespace
}  // namespace tidemark::cudnn

using namespace tidemark::cudnn;

CUDNN int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  if (!descriptor) return fail(null_pointer, "the place for a descriptor is null");
  if (kind < 0 || kind > last_kind)
    return refuse(not_supported,
                  "descriptors of type " + std::to_string(kind) + " are not modelled");
  *descriptor = new Opaque{std::make_shared<Descriptor>(Descriptor{.kind = kind})};
  return success;
}
CUDNN int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Opaque*>(descriptor);
  return success;
}
CUDNN int cudnnBackendSetAttribute(void* descriptor, int name, int type, std::int64_t count,
                                   const void* elements) {
  if (!descriptor) return fail(null_pointer, "the descriptor is null");
  return set(*static_cast<Opaque*>(descriptor)->descriptor, name, type, count, elements);
}
CUDNN int cudnnBackendGetAttribute(const void* descriptor, int name, int type, std::int64_t wanted,
                                   std::int64_t* count, void* elements) {
  if (!descriptor) return fail(null_pointer, "the descriptor is null");
  const Descriptor& d = *static_cast<const Opaque*>(descriptor)->descriptor;
  if (!d.finalized) return fail(not_finalized, "the descriptor is not finalized");
  return get(d, name, type, wanted, count, elements);
}
CUDNN int cudnnBackendFinalize(void* descriptor) {
  if (!descriptor) return fail(null_pointer, "the descriptor is null");
  Descriptor& d = *static_cast<Opaque*>(descriptor)->descriptor;
  if (d.finalized) return success;
  const Status status = finalize(d);
  d.finalized = status == success;
  return status;
}
CUDNN int cudnnBackendExecute(const Handle* handle, const void* plan, const void* pack) {
  if (!plan || !pack) return fail(null_pointer, "the plan or the variant pack is null");
  return execute(handle, *static_cast<const Opaque*>(plan)->descriptor,
                 *static_cast<const Opaque*>(pack)->descriptor);
}
