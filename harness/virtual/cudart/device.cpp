#include <cstdio>
#include <cstring>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/cuda_versions.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/peers.h"
#include "harness/virtual/device/stream.h"

namespace device = tidemark::device;
using device::call;
using device::device_exists;
using device::give;

namespace {

constexpr int kDriver = 13000;  // libcuda's, which serves older runtimes too

int get(cudaDeviceAttr a, int d) {
  int value = 0;
  device::attribute(&value, static_cast<int>(a), d);
  return value;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&] {
    if (!count) return cudaErrorInvalidValue;
    *count = device::device_count();
    return *count ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDevice(int* d) {
  return call([&] {
    if (d && device::device_count() == 0) return cudaErrorNoDevice;
    return give(d, device::current_device_index());
  });
}

cudaError_t cudaSetDevice(int d) { return call(device::select_device, d); }
cudaError_t cudaInitDevice(int d, unsigned, unsigned) {
  return call([&] { return device_exists(d) ? cudaSuccess : cudaErrorInvalidDevice; });
}
cudaError_t cudaSetDeviceFlags(unsigned) {
  return call([] { return cudaSuccess; });
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return call([&] { return give(flags, cudaDeviceScheduleAuto | cudaDeviceMapHost); });
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return device::note_error(cudaErrorInvalidValue);
  *version = kDriver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return device::note_error(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int d) {
  return call([&] { return device::attribute(value, static_cast<int>(attribute), d); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int d) {
  return call([&] {
    if (!p) return cudaErrorInvalidValue;
    if (!device_exists(d)) return cudaErrorInvalidDevice;
    std::memset(p, 0, sizeof *p);
    std::snprintf(p->name, sizeof p->name, "%s", device::device_name());
    device::device_uuid(d, p->uuid.bytes);
    p->totalGlobalMem = device::device_capacity(d);
    const auto bytes = [&](cudaDeviceAttr a) { return static_cast<size_t>(get(a, d)); };
    p->sharedMemPerBlock = bytes(cudaDevAttrMaxSharedMemoryPerBlock);
    p->regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock, d);
    p->warpSize = get(cudaDevAttrWarpSize, d);
    p->memPitch = bytes(cudaDevAttrMaxPitch);
    p->maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock, d);
    for (int i = 0; i < 3; ++i) {
      p->maxThreadsDim[i] = get(static_cast<cudaDeviceAttr>(cudaDevAttrMaxBlockDimX + i), d);
      p->maxGridSize[i] = get(static_cast<cudaDeviceAttr>(cudaDevAttrMaxGridDimX + i), d);
      p->maxTexture3D[i] = get(static_cast<cudaDeviceAttr>(cudaDevAttrMaxTexture3DWidth + i), d);
    }
    p->totalConstMem = bytes(cudaDevAttrTotalConstantMemory);
    p->major = get(cudaDevAttrComputeCapabilityMajor, d);
    p->minor = get(cudaDevAttrComputeCapabilityMinor, d);
    p->textureAlignment = bytes(cudaDevAttrTextureAlignment);
    p->texturePitchAlignment = bytes(cudaDevAttrTexturePitchAlignment);
    p->multiProcessorCount = get(cudaDevAttrMultiProcessorCount, d);
    p->canMapHostMemory = get(cudaDevAttrCanMapHostMemory, d);
    p->maxTexture1D = get(cudaDevAttrMaxTexture1DWidth, d);
    p->maxTexture2D[0] = get(cudaDevAttrMaxTexture2DWidth, d);
    p->maxTexture2D[1] = get(cudaDevAttrMaxTexture2DHeight, d);
    p->surfaceAlignment = bytes(cudaDevAttrSurfaceAlignment);
    p->concurrentKernels = get(cudaDevAttrConcurrentKernels, d);
    p->ECCEnabled = get(cudaDevAttrEccEnabled, d);
    p->pciBusID = get(cudaDevAttrPciBusId, d);
    p->asyncEngineCount = get(cudaDevAttrAsyncEngineCount, d);
    p->unifiedAddressing = get(cudaDevAttrUnifiedAddressing, d);
    p->memoryBusWidth = get(cudaDevAttrGlobalMemoryBusWidth, d);
    p->l2CacheSize = get(cudaDevAttrL2CacheSize, d);
    p->persistingL2CacheMaxSize = get(cudaDevAttrMaxPersistingL2CacheSize, d);
    p->maxThreadsPerMultiProcessor = get(cudaDevAttrMaxThreadsPerMultiProcessor, d);
    p->streamPrioritiesSupported = get(cudaDevAttrStreamPrioritiesSupported, d);
    p->globalL1CacheSupported = get(cudaDevAttrGlobalL1CacheSupported, d);
    p->localL1CacheSupported = get(cudaDevAttrLocalL1CacheSupported, d);
    p->sharedMemPerMultiprocessor = bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    p->regsPerMultiprocessor = get(cudaDevAttrMaxRegistersPerMultiprocessor, d);
    p->computePreemptionSupported = get(cudaDevAttrComputePreemptionSupported, d);
    p->canUseHostPointerForRegisteredMem = get(cudaDevAttrCanUseHostPointerForRegisteredMem, d);
    p->cooperativeLaunch = get(cudaDevAttrCooperativeLaunch, d);
    p->sharedMemPerBlockOptin = bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    p->maxBlocksPerMultiProcessor = get(cudaDevAttrMaxBlocksPerMultiprocessor, d);
    p->accessPolicyMaxWindowSize = get(cudaDevAttrMaxAccessPolicyWindowSize, d);
    p->reservedSharedMemPerBlock = bytes(cudaDevAttrReservedSharedMemoryPerBlock);
    p->hostRegisterSupported = get(cudaDevAttrHostRegisterSupported, d);
    p->hostRegisterReadOnlySupported = get(cudaDevAttrHostRegisterReadOnlySupported, d);
    p->memoryPoolsSupported = get(cudaDevAttrMemoryPoolsSupported, d);
    p->clusterLaunch = get(cudaDevAttrClusterLaunch, d);
    tidemark::fill_version_fields(*p, [d](cudaDeviceAttr a) { return get(a, d); });
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int d) {
  return call(device::bus_id_of_device, text, size, d);
}

cudaError_t cudaDeviceGetByPCIBusId(int* d, const char* text) {
  return call([&] {
    if (!d || !text) return cudaErrorInvalidValue;
    for (*d = 0; *d < device::device_count(); ++*d) {
      if (device::bus_id(*d) == text) return cudaSuccess;
    }
    return cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] {
    device::priority_range(least, greatest);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call(device::synchronise_device, device::current_device_index());
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return call([&] {
    if (!value) return cudaErrorInvalidValue;
    switch (limit) {  // what CUDA starts with
      case cudaLimitStackSize:
        return give(value, 1024);
      case cudaLimitPrintfFifoSize:
        return give(value, 7 << 20);
      case cudaLimitMallocHeapSize:
        return give(value, 8 << 20);
      case cudaLimitMaxL2FetchGranularity:
        return give(value, 64);
      default:
        return cudaErrorUnsupportedLimit;
    }
  });
}

// Cache preferences are hints.
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return call([&] { return give(config, cudaFuncCachePreferNone); });
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return call([&] {
    return config >= cudaFuncCachePreferNone && config <= cudaFuncCachePreferEqual
               ? cudaSuccess
               : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int d, int peer) {
  return call(device::can_access_peer, can, d, peer);
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call(device::enable_peer, peer, flags);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) { return call(device::disable_peer, peer); }
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int d, int peer) {
  return call(device::peer_attribute, value, static_cast<int>(attribute), d, peer);
}

// Profilers attach to nothing here; ranges cost nothing. (Declared in a header that the set-up does
// not bring.)
extern "C" cudaError_t cudaProfilerStart() {
  return call([] { return cudaSuccess; });
}
extern "C" cudaError_t cudaProfilerStop() {
  return call([] { return cudaSuccess; });
}
