#include "harness/virtual/nccl/reduction.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace tidemark::nccl {
namespace {

// How an element is stored and in what it is accumulated.
template <typename Stored, typename Accumulated>
struct Plain {
  using Element = Stored;
  using Acc = Accumulated;
  static Acc load(Stored value) { return static_cast<Acc>(value); }
  static Stored store(Acc value) { return static_cast<Stored>(value); }
};
struct Half {
  using Element = __half;
  using Acc = float;
  static float load(__half value) { return __half2float(value); }
  static __half store(float value) { return __float2half_rn(value); }
};
struct BFloat {
  using Element = __nv_bfloat16;
  using Acc = float;
  static float load(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __nv_bfloat16 store(float value) { return __float2bfloat16_rn(value); }
};
template <__nv_fp8_interpretation_t kind>
struct Float8 {
  using Element = __nv_fp8_storage_t;
  using Acc = float;
  static float load(Element value) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(value, kind)));
  }
  static Element store(float value) { return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, kind); }
};

// Integers wrap: in C++ only unsigned ones may.
template <typename Acc>
Acc add(Acc a, Acc b) {
  if constexpr (std::is_integral_v<Acc>) {
    return static_cast<Acc>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename Acc>
Acc multiply(Acc a, Acc b) {
  if constexpr (std::is_integral_v<Acc>) {
    return static_cast<Acc>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
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
      total = multiply(total, next);
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
      total = add(total, next);
  }
}

template <typename Number>
void reduce_as(void* out, const std::vector<Input>& inputs, std::size_t count, Reduction reduction,
               int ranks) {
  using Element = typename Number::Element;
  using Acc = typename Number::Acc;
  constexpr std::size_t block = 1024;  // accumulators stay in the first cache
  std::array<Acc, block> totals;
  for (std::size_t at = 0; at < count; at += block) {
    std::size_t size = std::min(block, count - at);
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const Element* from = static_cast<const Element*>(inputs[r].data) + at;
      auto scalar = from_scalar<Acc>(inputs[r].scalar_bits);
      for (std::size_t i = 0; i < size; ++i) {
        Acc value = Number::load(from[i]);
        if (reduction == Reduction::premul_sum) value = multiply(value, scalar);
        if (r == 0)
          totals[i] = value;
        else
          combine(totals[i], value, reduction);
      }
    }
    Element* to = static_cast<Element*>(out) + at;
    for (std::size_t i = 0; i < size; ++i) {
      to[i] = Number::store(reduction == Reduction::avg ? totals[i] / static_cast<Acc>(ranks)
                                                        : totals[i]);
    }
  }
}

// Calls `use` with the Number of a type.
template <typename Use>
void with_number(ncclDataType_t type, Use&& use) {
  switch (type) {
    case ncclInt8:
      return use(Plain<std::int8_t, std::int64_t>());
    case ncclUint8:
      return use(Plain<std::uint8_t, std::uint64_t>());
    case ncclInt32:
      return use(Plain<std::int32_t, std::int64_t>());
    case ncclUint32:
      return use(Plain<std::uint32_t, std::uint64_t>());
    case ncclInt64:
      return use(Plain<std::int64_t, std::int64_t>());
    case ncclUint64:
      return use(Plain<std::uint64_t, std::uint64_t>());
    case ncclFloat16:
      return use(Half());
    case ncclFloat32:
      return use(Plain<float, float>());
    case ncclFloat64:
      return use(Plain<double, double>());
    case ncclBfloat16:
      return use(BFloat());
    case ncclFloat8e4m3:
      return use(Float8<__NV_E4M3>());
    default:
      return use(Float8<__NV_E5M2>());
  }
}

}  // namespace

void reduce(void* out, const std::vector<Input>& inputs, std::size_t count, ncclDataType_t type,
            Reduction reduction, int ranks) {
  with_number(type, [&](auto number) {
    reduce_as<decltype(number)>(out, inputs, count, reduction, ranks);
  });
}

std::int64_t to_scalar(const void* element, ncclDataType_t type) {
  std::int64_t bits = 0;
  with_number(type, [&](auto number) {
    using Number = decltype(number);
    typename Number::Element value;
    std::memcpy(&value, element, sizeof value);
    auto loaded = Number::load(value);
    if constexpr (std::is_integral_v<decltype(loaded)>)
      bits = static_cast<std::int64_t>(loaded);
    else
      bits = std::bit_cast<std::int64_t>(static_cast<double>(loaded));
  });
  return bits;
}

}  // namespace tidemark::nccl
