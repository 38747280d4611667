// Words in memory by which a stream and the host, or two streams, tell each other how far they are.
#include "harness/virtual/device/stream_value.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned) {
  return answer([&] { return device::write_value(stream, reinterpret_cast<void*>(to), value); });
}

#undef cuStreamWriteValue32
/// PyTorch before 2.8 looks it up by this name; the parameters are the same.
extern "C" CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value,
                                         unsigned flags) {
  return cuStreamWriteValue32_v2(stream, to, value, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  return answer([&] {
    switch (flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH)) {
      case CU_STREAM_WAIT_VALUE_GEQ:
        return device::await_value(stream, reinterpret_cast<void*>(at), [=](std::uint32_t word) {
          return static_cast<std::int32_t>(word - value) >= 0;
        });
      case CU_STREAM_WAIT_VALUE_EQ:
        return device::await_value(stream, reinterpret_cast<void*>(at),
                                   [=](std::uint32_t word) { return word == value; });
      case CU_STREAM_WAIT_VALUE_AND:
        return device::await_value(stream, reinterpret_cast<void*>(at),
                                   [=](std::uint32_t word) { return (word & value) != 0; });
      case CU_STREAM_WAIT_VALUE_NOR:
        return device::await_value(stream, reinterpret_cast<void*>(at),
                                   [=](std::uint32_t word) { return ~(word | value) != 0; });
      default:
        return cudaErrorInvalidValue;
    }
  });
}
