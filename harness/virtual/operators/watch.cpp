#include "harness/virtual/operators/watch.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/places.h"
#include "harness/virtual/operators/torch_versions.h"
#include "harness/virtual/race/control.h"

namespace tidemark::operators {
namespace {

thread_local int depth = 0;
thread_local std::vector<tidemark_access> accesses;  // of the operator that this thread is in

const char* name_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kByte:
      return "uint8";
    default:
      return c10::toString(type);
  }
}

void add(const at::Tensor& tensor, bool write) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != c10::kStrided ||
      !tensor.has_storage() || tensor.numel() == 0)
    return;
  const c10::Storage& storage = tensor.storage();
  const auto* memory = static_cast<const char*>(storage.data());
  const std::size_t element = tensor.element_size();
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * element;
  if (!memory || offset + element > storage.nbytes()) return;  // its memory has been given back
  tidemark_access& a = accesses.emplace_back();
  a.address = memory + offset;
  a.storage = storage.unsafeGetStorageImpl();
  a.type = name_of(tensor.scalar_type());
  a.element = static_cast<std::uint32_t>(element);
  a.device = static_cast<std::int32_t>(tensor.device().index());
  a.write = write;
  const std::int64_t dims = tensor.dim(),
                     first = std::max<std::int64_t>(0, dims - TIDEMARK_ACCESS_DIMS);
  a.dims = static_cast<std::uint32_t>(dims - first);
  for (std::int64_t i = first; i < dims; ++i) {
    a.sizes[i - first] = tensor.size(i);
    a.strides[i - first] = tensor.stride(i);
  }
}

void add(const c10::IValue& value, bool write) {
  each_tensor(value, [&](const at::Tensor& tensor) { add(tensor, write); });
}

}  // namespace

Watch::Watch(const Signature& signature, const c10::IValue* arguments)
    : signature_(signature), watching_(depth++ == 0 && device.races_detected()) {
  if (!watching_) return;
  accesses.clear();
  for (std::size_t i = 0; i < signature.arguments; ++i) add(arguments[i], signature.written[i]);
  device.begin_watched(with_place(signature.name));
}

void Watch::finish(const c10::IValue* results) {
  if (!watching_) return;
  for (std::size_t i = 0; i < signature_.returns; ++i)
    if (signature_.made[i]) add(results[i], true);
  watching_ = false;
  device.end_watched(accesses.data(), accesses.size());
}

Watch::~Watch() {
  if (watching_) device.end_watched(nullptr, 0);
  --depth;
}

bool inside_watch() { return depth > 0; }

void follow_allocator() {
  using Event = c10::cuda::CUDACachingAllocator::TraceEntry;
  static std::once_flag once;
  std::call_once(once, [] {
    start_cuda(at::globalContext());
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const Event& entry) {
      const auto* address = reinterpret_cast<const void*>(entry.addr_);
      switch (entry.action_) {
        case Event::ALLOC:
          return device.allocated(address, entry.size_, entry.stream_);
        case Event::FREE_REQUESTED:
          return device.freed(address);
        case Event::SEGMENT_FREE:
        case Event::SEGMENT_UNMAP:
          return device.returned(address, entry.size_);
        default:
          return;
      }
    });
  });
}

void host_access(const char* name, const at::Tensor& tensor, bool write) {
  if (inside_watch() || !device.races_detected() || !tensor.defined() ||
      !tensor.device().is_cpu() || tensor.layout() != c10::kStrided || !tensor.has_storage() ||
      tensor.numel() == 0)
    return;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  device.host_access(name, tensor.const_data_ptr(),
                     (static_cast<std::uint64_t>(last) + 1) * tensor.element_size(), write);
}

}  // namespace tidemark::operators
