// The profiler asks at its start and does without the device's activity when refused.
#include <cuda_runtime_api.h>

STUB(int, cuptiGetVersion)(uint32_t* version) {
  return *version = CUDART_VERSION / 1000 * 10000, 0;
}
STUB(int, cuptiGetResultString)(int status, const char** text) {
  return *text = status == 0 ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_SUPPORTED", 0;
}
STUB(int, cuptiSubscribe)() { return not_supported; }
STUB(int, cuptiFinalize)() { return 0; }
