#include "harness/virtual/nccl/reduction.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <type_traits>

namespace tidemark::nccl {
namespace {

// The type in which elements are accumulated.
template <typename Element>
using Accumulator =
    std::conditional_t<std::is_integral_v<Element>,
                       std::conditional_t<std::is_signed_v<Element>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_same_v<Element, double>, double, float>>;

// a `operation` b. Integers wrap: in C++ only unsigned ones may.
template <typename Acc, typename Operation>
Acc wrapping(Acc a, Acc b, Operation operation) {
  if constexpr (std::is_integral_v<Acc>) {
    return static_cast<Acc>(
        operation(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  } else {
    return operation(a, b);
  }
}
template <typename Acc>
Acc from_scalar(std::int64_t bits) {
  if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(bits);
  else
    return static_cast<Acc>(std::bit_cast<double>(bits));
}

template <typename Acc>
void combine(Acc& total, Acc next, Reduction reduction) {
  switch (reduction) {
    case Reduction::prod:
      total = wrapping(total, next, std::multiplies<>());
      break;
    case Reduction::max:
      if constexpr (std::is_integral_v<Acc>)
        total = std::max(total, next);
      else
        total = std::fmax(total, next);
      break;
    case Reduction::min:
      if constexpr (std::is_integral_v<Acc>)
        total = std::min(total, next);
      else
        total = std::fmin(total, next);
      break;
    default:
      total = wrapping(total, next, std::plus<>());
  }
}

template <typename Element>
void reduce_as(void* out, const std::vector<Input>& inputs, std::size_t count, Reduction reduction,
               int ranks) {
  using Acc = Accumulator<Element>;
  constexpr std::size_t block = 1024;  // accumulators stay in the first cache
  std::array<Acc, block> totals;
  for (std::size_t at = 0; at < count; at += block) {
    std::size_t size = std::min(block, count - at);
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const Element* from = static_cast<const Element*>(inputs[r].data) + at;
      auto scalar = from_scalar<Acc>(inputs[r].scalar_bits);
      for (std::size_t i = 0; i < size; ++i) {
        auto value = static_cast<Acc>(from[i]);
        if (reduction == Reduction::premul_sum)
          value = wrapping(value, scalar, std::multiplies<>());
        if (r == 0)
          totals[i] = value;
        else
          combine(totals[i], value, reduction);
      }
    }
    Element* to = static_cast<Element*>(out) + at;
    for (std::size_t i = 0; i < size; ++i) {
      to[i] = static_cast<Element>(reduction == Reduction::avg ? totals[i] / static_cast<Acc>(ranks)
                                                               : totals[i]);
    }
  }
}

template <typename Element>
std::int64_t scalar_of(const void* element) {
  Element value;
  std::memcpy(&value, element, sizeof value);
  const auto loaded = static_cast<Accumulator<Element>>(value);
  if constexpr (std::is_integral_v<Element>)
    return static_cast<std::int64_t>(loaded);
  else
    return std::bit_cast<std::int64_t>(static_cast<double>(loaded));
}

struct Functions {
  decltype(&reduce_as<float>) reduce;
  decltype(&scalar_of<float>) to_scalar;
};
template <typename Element>
constexpr Functions functions{reduce_as<Element>, scalar_of<Element>};

// By ncclDataType_t. CUDA's own types round to nearest even, and those of 8 bits saturate.
constexpr std::array<Functions, ncclNumTypes> by_type{
    functions<std::int8_t>,   functions<std::uint8_t>,  functions<std::int32_t>,
    functions<std::uint32_t>, functions<std::int64_t>,  functions<std::uint64_t>,
    functions<__half>,        functions<float>,         functions<double>,
    functions<__nv_bfloat16>, functions<__nv_fp8_e4m3>, functions<__nv_fp8_e5m2>};

}  // namespace

void reduce(void* out, const std::vector<Input>& inputs, std::size_t count, ncclDataType_t type,
            Reduction reduction, int ranks) {
  by_type[static_cast<std::size_t>(type)].reduce(out, inputs, count, reduction, ranks);
}

std::int64_t to_scalar(const void* element, ncclDataType_t type) {
  return by_type[static_cast<std::size_t>(type)].to_scalar(element);
}

}  // namespace tidemark::nccl
