// The few functions of the CUDA runtime that the library needs, looked up by name: it is loaded
// beside whichever runtime the program has.
#pragma once

#include <cstddef>

namespace tidemark::nccl::cuda {

int current_device();
/// cudaError_t; 0 is success.
int allocate(void** address, std::size_t size);
int release(void* address);
/// A communicator is made: the virtual device, if this is one, sets NCCL's buffers aside.
void communicator_made(int device);

/// Makes a device current for a while.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_, device_;
};

}  // namespace tidemark::nccl::cuda
