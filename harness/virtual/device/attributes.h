// The device's attributes. The runtime's cudaDeviceAttr and the driver's CUdevice_attribute share
// their numbers.
#pragma once

#include <driver_types.h>

#include <string>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// cudaErrorInvalidValue for an attribute that is unknown.
cudaError_t attribute(int* value, int attribute, int device);
/// "NVIDIA H100 80GB HBM3"
const char* device_name();
std::size_t device_capacity(int device);
/// 16 bytes, the same in every run.
void device_uuid(int device, char uuid[16]);
/// "0000:01:00.0"
std::string bus_id(int device);

/// The answers of runtime and driver alike: cudaErrorInvalidValue without a place for them,
/// cudaErrorInvalidDevice where there is no such device.
bool device_exists(int device);
cudaError_t name_of_device(char* text, int size, int device);
cudaError_t bus_id_of_device(char* text, int size, int device);

}  // namespace tidemark::device
#pragma GCC visibility pop
