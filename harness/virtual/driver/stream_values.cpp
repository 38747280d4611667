// Words in memory by which a stream and the host, or two streams, tell each other how far they are.
#include "harness/virtual/device/stream_value.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned) {
  return answer(device::write_value, stream, reinterpret_cast<void*>(to), value);
}

#undef cuStreamWriteValue32
/// PyTorch before 2.8 looks it up by this name; the parameters are the same.
extern "C" CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value,
                                         unsigned flags) {
  return cuStreamWriteValue32_v2(stream, to, value, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  const auto await = [&](bool (*is_right)(std::uint32_t word, std::uint32_t value)) {
    return device::await_value(stream, reinterpret_cast<void*>(at),
                               [=](std::uint32_t word) { return is_right(word, value); });
  };
  return answer([&] {
    switch (flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH)) {
      case CU_STREAM_WAIT_VALUE_GEQ:
        return await([](auto word, auto v) { return static_cast<std::int32_t>(word - v) >= 0; });
      case CU_STREAM_WAIT_VALUE_EQ:
        return await([](auto word, auto v) { return word == v; });
      case CU_STREAM_WAIT_VALUE_AND:
        return await([](auto word, auto v) { return (word & v) != 0; });
      case CU_STREAM_WAIT_VALUE_NOR:
        return await([](auto word, auto v) { return ~(word | v) != 0; });
      default:
        return cudaErrorInvalidValue;
    }
  });
}
