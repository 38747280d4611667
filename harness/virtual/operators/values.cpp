#include "harness/virtual/operators/values.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/device_calls.h"

namespace tidemark::operators {
namespace {

constexpr std::uint64_t kFactor = 64;  // by which tensors of integers may be larger
constexpr std::int64_t kMostPieces = 1 << 14;

// Until `use` says false.
template <class Use>
bool each_run(const Place& place, const char* at, std::size_t dim, Use& use) {
  if (dim == place.outer.size()) return use(at);
  for (std::int64_t i = 0; i < place.outer[dim].first; ++i) {
    const char* const next = at + static_cast<std::size_t>(i) * place.outer[dim].second;
    if (!each_run(place, next, dim + 1, use)) return false;
  }
  return true;
}

}  // namespace

bool Place::of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != c10::kStrided ||
      !tensor.has_storage() || tensor.numel() == 0)
    return false;
  const c10::Storage& storage = tensor.storage();
  const auto* memory = static_cast<const char*>(storage.data());
  const auto element = static_cast<std::size_t>(tensor.element_size());
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * element;
  if (!memory) return false;
  first = memory + offset;
  run = span = element;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != 0)
      outer.emplace_back(tensor.size(i), static_cast<std::size_t>(tensor.stride(i)) * element);
  }
  std::sort(outer.begin(), outer.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& [size, stride] : outer) span += static_cast<std::size_t>(size - 1) * stride;
  while (!outer.empty() && outer.front().second == run) {
    run *= static_cast<std::size_t>(outer.front().first);
    outer.erase(outer.begin());
  }
  for (const auto& [size, stride] : outer) pieces *= size;
  return offset + span <= storage.nbytes();  // else its memory has been given back
}

bool Place::is_known() const {
  if (device.is_known(first, span)) return true;
  if (pieces == 1 || pieces > kMostPieces) return false;
  const auto use = [this](const char* at) { return device.is_known(at, run) != 0; };
  return each_run(*this, first, 0, use);
}

void Place::mark(bool known) const {
  if (pieces > kMostPieces) return device.mark_known(first, span, 0);
  const auto use = [&](const char* at) {
    device.mark_known(at, run, known);
    return true;
  };
  each_run(*this, first, 0, use);
}

bool is_known(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return true;
  if (tensor.layout() != c10::kStrided) return false;
  if (tensor.numel() == 0) return true;
  Place place;
  return place.of(tensor) && place.is_known();
}

void mark(const at::Tensor& tensor, bool known) {
  Place place;
  if (place.of(tensor)) place.mark(known);
}

void mark(const c10::IValue& value, bool known) {
  each_tensor(value, [&](const at::Tensor& tensor) { mark(tensor, known); });
}

bool within_limit(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return true;
  const bool floating = at::isFloatingType(tensor.scalar_type()) || tensor.is_complex();
  return bytes_of(tensor) <= device.known_limit() * (floating ? 1 : kFactor);
}
bool within_limit(const c10::IValue& value) {
  return all_tensors(value, [](const at::Tensor& tensor) { return within_limit(tensor); });
}

void follow_allocations() {
  using Event = c10::cuda::CUDACachingAllocator::TraceEntry;
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const Event& entry) {
        const auto* address = reinterpret_cast<const void*>(entry.addr_);
        if (entry.action_ == Event::ALLOC) device.new_block(address, entry.size_);
        if (entry.action_ == Event::FREE_COMPLETED) device.new_block(address, 0);
      });
    } catch (const c10::Error&) {
      // cudaMallocAsync has no tracker; there every allocation is the device's own.
    }
  });
}

}  // namespace tidemark::operators
