#include "harness/virtual/numbers/values.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "harness/virtual/numbers/alias.h"
#include "harness/virtual/numbers/device_calls.h"

namespace tidemark::numbers {
namespace {

constexpr std::uint64_t kFactor = 64;  // by which tensors of integers may be larger
constexpr std::int64_t kMostPieces = 1 << 14;

// The bytes of a tensor's elements: runs of `run` bytes, repeated along the outer dimensions.
struct Layout {
  const char* first = nullptr;
  std::size_t run = 0, span = 0;
  std::int64_t pieces = 1;
  c10::SmallVector<std::pair<std::int64_t, std::size_t>, 6> outer;  // size, stride in bytes

  // False where there is nothing on the device to speak of.
  bool of(const at::Tensor& tensor) {
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

  // Until `use` says false.
  template <class Use>
  bool each(const char* at, std::size_t dim, Use& use) const {
    if (dim == outer.size()) return use(at);
    for (std::int64_t i = 0; i < outer[dim].first; ++i) {
      if (!each(at + static_cast<std::size_t>(i) * outer[dim].second, dim + 1, use)) return false;
    }
    return true;
  }
};

}  // namespace

bool is_known(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return true;
  if (tensor.layout() != c10::kStrided) return false;
  if (tensor.numel() == 0) return true;
  Layout layout;
  if (!layout.of(tensor)) return false;
  if (device.is_known(layout.first, layout.span)) return true;
  if (layout.pieces == 1 || layout.pieces > kMostPieces) return false;
  const auto use = [&](const char* at) { return device.is_known(at, layout.run) != 0; };
  return layout.each(layout.first, 0, use);
}

void mark(const at::Tensor& tensor, bool known) {
  Layout layout;
  if (!layout.of(tensor)) return;
  if (layout.pieces > kMostPieces) return device.mark_known(layout.first, layout.span, 0);
  const auto use = [&](const char* at) {
    device.mark_known(at, layout.run, known);
    return true;
  };
  layout.each(layout.first, 0, use);
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

}  // namespace tidemark::numbers
