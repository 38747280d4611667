// The functions of the backend interface.
#include "harness/virtual/cudnn/backend.h"

namespace tidemark::cudnn {
namespace {

/// A program's handle of a descriptor. Finalised descriptors are shared between those that name
/// them, as cuDNN's are: a program destroys its handles in any order.
struct Opaque {
  std::shared_ptr<Descriptor> descriptor;
};

constexpr char kNoDescriptor[] = "a descriptor is null or none of cuDNN's";
constexpr std::int64_t kMostElements = 1 << 16;  // far beyond cuDNN's own bounds

/// The descriptor of a caller's handle; null where the handle is none of this library's.
std::shared_ptr<Descriptor> of(const void* handle) {
  const auto* opaque = static_cast<const Opaque*>(handle);
  return made(opaque) ? opaque->descriptor : nullptr;
}

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
  if (count < 0 || count > kMostElements || (count > 0 && !elements))
    return fail(bad_param, "an attribute has no elements, or too many");
  if (!has_attribute(d.kind, name))
    return fail(not_supported, "descriptors of type " + std::to_string(d.kind) +
                                   " have no attribute " + std::to_string(name));
  if (const int expected = type_of_attribute(name); expected >= 0 && expected != type)
    return fail(attribute_type, "the attribute has another type");
  if (d.finalized) return fail(bad_param, "the descriptor is finalized already");
  Attribute a{.type = type, .count = count};
  const auto n = static_cast<std::size_t>(count);
  if (type == of_descriptor) {
    for (std::size_t i = 0; i < n; ++i) {
      std::shared_ptr<Descriptor> child = of(static_cast<const void* const*>(elements)[i]);
      if (!child)
        return fail(null_pointer,
                    "an attribute names a descriptor that is null or none of cuDNN's");
      if (!child->finalized)
        return fail(not_finalized, "an attribute names a descriptor that is not finalized");
      a.descriptors.push_back(std::move(child));
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
  // With places to write to, the count is that of the elements written: the frontend cuts its list
  // of engine configurations to it.
  const bool counts_only = !elements || wanted <= 0;
  if (count) *count = counts_only ? a.count : std::min(wanted, a.count);
  if (counts_only) return success;
  const auto n = static_cast<std::size_t>(std::min(wanted, a.count));
  if (type != of_descriptor) {
    if (n > 0) std::memcpy(elements, a.bytes.data(), n * size_of(type));
    return success;
  }
  for (std::size_t i = 0; i < n; ++i) {
    auto* place = static_cast<Opaque* const*>(elements)[i];
    if (!made(place)) return fail(null_pointer, "the place for a descriptor is null");
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
  *descriptor = tidemark::device::handles<Opaque>().make(
      {std::make_shared<Descriptor>(Descriptor{.kind = kind})});
  return success;
}
CUDNN int cudnnBackendDestroyDescriptor(void* descriptor) {
  if (!descriptor ||
      tidemark::device::handles<Opaque>().destroy(static_cast<const Opaque*>(descriptor)))
    return success;
  return fail(bad_param, "the descriptor is none of cuDNN's, or was destroyed before");
}
CUDNN int cudnnBackendSetAttribute(void* descriptor, int name, int type, std::int64_t count,
                                   const void* elements) {
  const auto d = of(descriptor);
  if (!d) return fail(null_pointer, kNoDescriptor);
  return set(*d, name, type, count, elements);
}
CUDNN int cudnnBackendGetAttribute(const void* descriptor, int name, int type, std::int64_t wanted,
                                   std::int64_t* count, void* elements) {
  const auto d = of(descriptor);
  if (!d) return fail(null_pointer, kNoDescriptor);
  if (!d->finalized) return fail(not_finalized, "the descriptor is not finalized");
  return get(*d, name, type, wanted, count, elements);
}
CUDNN int cudnnBackendFinalize(void* descriptor) {
  const auto d = of(descriptor);
  if (!d) return fail(null_pointer, kNoDescriptor);
  if (d->finalized) return success;
  const Status status = finalize(*d);
  d->finalized = status == success;
  return status;
}
CUDNN int cudnnBackendExecute(const Handle* handle, const void* plan, const void* pack) {
  const auto p = of(plan), variant = of(pack);
  if (!p || !variant) return fail(null_pointer, kNoDescriptor);
  return execute(handle, *p, *variant);
}
