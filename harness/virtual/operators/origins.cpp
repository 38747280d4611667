#include "harness/virtual/operators/origins.h"

#include <algorithm>
#include <deque>
#include <mutex>

namespace tidemark::operators {
namespace {

constexpr std::size_t kMost = 256;
constexpr at::ScalarType kJudged = at::kBool;

struct Noted {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // keeps no memory of the device
  const c10::StorageImpl* at;
  at::ScalarType what;  // kJudged, or the type of floats
};

struct All {
  std::mutex mutex;
  std::deque<Noted> noted;  // the last first
};

All& all() {
  static auto& one = *new All;
  return one;
}

void note(const at::Tensor& tensor, at::ScalarType what) {
  if (!tensor.has_storage()) return;
  const auto storage = tensor.storage().getWeakStorageImpl();
  All& known = all();
  const std::lock_guard lock(known.mutex);
  known.noted.push_front({storage, tensor.storage().unsafeGetStorageImpl(), what});
  if (known.noted.size() > kMost) known.noted.pop_back();
}

/// What was noted last of the storage that satisfies `fits`.
template <class Fits>
std::optional<at::ScalarType> noted(const at::Tensor& tensor, Fits fits) {
  if (!tensor.has_storage()) return std::nullopt;
  const c10::StorageImpl* const at = tensor.storage().unsafeGetStorageImpl();
  All& known = all();
  const std::lock_guard lock(known.mutex);
  // The storage of `tensor` lives, so a storage that has ended was another one at that address.
  for (const Noted& one : known.noted)
    if (one.at == at && fits(one.what) && !one.storage.expired()) return one.what;
  return std::nullopt;
}

}  // namespace

void note_judged(const at::Tensor& tensor) { note(tensor, kJudged); }

bool is_judged(const at::Tensor& tensor) {
  return noted(tensor, [](at::ScalarType what) { return what == kJudged; }).has_value();
}

void note_floats(const at::Tensor& bytes, at::ScalarType type) {
  if (bytes.element_size() == 1 && !bytes.is_floating_point() && at::isFloatingType(type))
    note(bytes, type);
}

std::optional<at::ScalarType> floats_below(const at::Tensor& bytes) {
  if (bytes.scalar_type() != at::kByte && bytes.scalar_type() != at::kChar) return std::nullopt;
  return noted(bytes, [](at::ScalarType what) { return what != kJudged; });
}

}  // namespace tidemark::operators
