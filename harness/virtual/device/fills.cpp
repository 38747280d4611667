#include "harness/virtual/device/fills.h"

#include <cstdint>
#include <cstring>

namespace tidemark::device {
namespace {

/// kfunc<T, FUNC>(T* A, T* B, T value, long n) of csrc/kernels.cu, bitsandbytes 0.41 to 0.50.
struct FillArguments {
  char* a = nullptr;
  const char* b = nullptr;
  const void* value = nullptr;
  long count = 0;
};

/// FUNC 0 fills, 1 counts from 0, 2 multiplies A by B.
template <class T, int kind>
std::function<cudaError_t()> effect(const FillArguments& values) {
  T value;
  std::memcpy(&value, values.value, sizeof value);
  return [values, value] {
    T* const a = reinterpret_cast<T*>(values.a);
    const T* const b = reinterpret_cast<const T*>(values.b);
    for (long i = 0; i < values.count; ++i)
      a[i] = kind == 0 ? value : kind == 1 ? static_cast<T>(i) : static_cast<T>(a[i] * b[i]);
    return cudaSuccess;
  };
}

struct Fill {
  const char* name;
  std::function<cudaError_t()> (*effect)(const FillArguments&);
};
constexpr Fill kFills[] = {
    {"_Z5kfuncIfLi0EEvPT_S1_S0_l", effect<float, 0>},
    {"_Z5kfuncIhLi0EEvPT_S1_S0_l", effect<std::uint8_t, 0>},
    {"_Z5kfuncIfLi1EEvPT_S1_S0_l", effect<float, 1>},
    {"_Z5kfuncIfLi2EEvPT_S1_S0_l", effect<float, 2>},
};

}  // namespace

std::function<cudaError_t()> fill_of(const std::string& name, void** arguments) {
  for (const Fill& fill : kFills) {
    if (name != fill.name || !arguments) continue;
    FillArguments values{.value = arguments[2]};
    std::memcpy(&values.a, arguments[0], sizeof values.a);
    std::memcpy(&values.b, arguments[1], sizeof values.b);
    std::memcpy(&values.count, arguments[3], sizeof values.count);
    return fill.effect(values);
  }
  return {};
}

}  // namespace tidemark::device
