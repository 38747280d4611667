// A stand-in for the driver's libcuda.so.1, for the tests of what is said where the driver or the
// GPU does not suit: answers what the environment says, and nothing else is there.
#include <cstdlib>

namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace

#define DRIVER extern "C" __attribute__((visibility("default"))) int

DRIVER cuInit(unsigned) {
  const int error = number("STAND_IN_ERROR", 0);
  if (error < 0) std::abort();
  return error;
}
DRIVER cuDriverGetVersion(int* version) {
  *version = number("STAND_IN_VERSION", 13000);
  return 0;
}
DRIVER cuDeviceGetCount(int* count) {
  *count = number("STAND_IN_GPUS", 1);
  return 0;
}
