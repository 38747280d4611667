#include "harness/virtual/cupti/names.h"

#include <algorithm>
#include <string_view>

namespace tidemark::cupti {
namespace {

struct Function {
  const char* name;
  std::uint32_t number;
};

// In the order of the names. Where a release of CUDA gave a function a second number, it is that of
// the first, which all releases know.
constexpr Function kRuntimeFunctions[] = {
    {"cudaDeviceCanAccessPeer", 154},
    {"cudaDeviceDisablePeerAccess", 156},
    {"cudaDeviceEnablePeerAccess", 155},
    {"cudaDeviceGetAttribute", 200},
    {"cudaDeviceGetByPCIBusId", 173},
    {"cudaDeviceGetCacheConfig", 168},
    {"cudaDeviceGetDefaultMemPool", 372},
    {"cudaDeviceGetLimit", 166},
    {"cudaDeviceGetMemPool", 386},
    {"cudaDeviceGetP2PAttribute", 255},
    {"cudaDeviceGetPCIBusId", 174},
    {"cudaDeviceGetStreamPriorityRange", 205},
    {"cudaDeviceSetCacheConfig", 169},
    {"cudaDeviceSetMemPool", 385},
    {"cudaDeviceSynchronize", 165},
    {"cudaDriverGetVersion", 1},
    {"cudaEventCreate", 133},
    {"cudaEventCreateWithFlags", 134},
    {"cudaEventDestroy", 136},
    {"cudaEventElapsedTime", 139},
    {"cudaEventQuery", 138},
    {"cudaEventRecord", 135},
    {"cudaEventRecordWithFlags", 370},
    {"cudaEventSynchronize", 137},
    {"cudaFree", 22},
    {"cudaFreeAsync", 375},
    {"cudaFreeHost", 26},
    {"cudaFuncGetAttributes", 15},
    {"cudaFuncGetName", 451},
    {"cudaFuncSetAttribute", 273},
    {"cudaFuncSetCacheConfig", 14},
    {"cudaGetDevice", 17},
    {"cudaGetDeviceCount", 3},
    {"cudaGetDeviceFlags", 212},
    {"cudaGetDeviceProperties", 4},
    {"cudaGetDriverEntryPoint", 406},
    {"cudaGetDriverEntryPointByVersion", 468},
    {"cudaGetKernel", 439},
    {"cudaGetLastError", 10},
    {"cudaGetSymbolAddress", 53},
    {"cudaGetSymbolSize", 54},
    {"cudaGraphClone", 301},
    {"cudaGraphDebugDotPrint", 408},
    {"cudaGraphDestroy", 314},
    {"cudaGraphExecDestroy", 313},
    {"cudaGraphExecGetFlags", 438},
    {"cudaGraphExecUpdate", 335},
    {"cudaGraphGetEdges", 323},
    {"cudaGraphGetNodes", 322},
    {"cudaGraphGetRootNodes", 304},
    {"cudaGraphInstantiate", 443},
    {"cudaGraphInstantiateWithFlags", 418},
    {"cudaGraphLaunch", 311},
    {"cudaGraphNodeGetDependencies", 305},
    {"cudaGraphNodeGetType", 303},
    {"cudaGraphUpload", 348},
    {"cudaHostAlloc", 27},
    {"cudaHostGetDevicePointer", 28},
    {"cudaHostGetFlags", 29},
    {"cudaHostRegister", 152},
    {"cudaHostUnregister", 153},
    {"cudaInitDevice", 444},
    {"cudaIpcCloseMemHandle", 180},
    {"cudaIpcGetEventHandle", 176},
    {"cudaIpcGetMemHandle", 178},
    {"cudaIpcOpenEventHandle", 177},
    {"cudaIpcOpenMemHandle", 179},
    {"cudaLaunchCooperativeKernel", 269},
    {"cudaLaunchHostFunc", 284},
    {"cudaLaunchKernel", 211},
    {"cudaLaunchKernelExC", 430},
    {"cudaMalloc", 20},
    {"cudaMallocAsync", 373},
    {"cudaMallocFromPoolAsync", 391},
    {"cudaMallocHost", 25},
    {"cudaMallocManaged", 206},
    {"cudaMallocPitch", 21},
    {"cudaMemAdvise", 254},
    {"cudaMemGetInfo", 30},
    {"cudaMemPoolCreate", 383},
    {"cudaMemPoolDestroy", 384},
    {"cudaMemPoolGetAttribute", 379},
    {"cudaMemPoolSetAccess", 380},
    {"cudaMemPoolSetAttribute", 378},
    {"cudaMemPoolTrimTo", 377},
    {"cudaMemPrefetchAsync", 252},
    {"cudaMemcpy", 31},
    {"cudaMemcpy2D", 32},
    {"cudaMemcpy2DAsync", 44},
    {"cudaMemcpy3D", 144},
    {"cudaMemcpy3DAsync", 145},
    {"cudaMemcpy3DPeerAsync", 163},
    {"cudaMemcpyAsync", 41},
    {"cudaMemcpyBatchAsync", 482},
    {"cudaMemcpyFromSymbol", 40},
    {"cudaMemcpyFromSymbolAsync", 48},
    {"cudaMemcpyPeer", 160},
    {"cudaMemcpyPeerAsync", 161},
    {"cudaMemcpyToSymbol", 39},
    {"cudaMemcpyToSymbolAsync", 47},
    {"cudaMemset", 49},
    {"cudaMemset2D", 50},
    {"cudaMemset2DAsync", 52},
    {"cudaMemsetAsync", 51},
    {"cudaOccupancyMaxActiveBlocksPerMultiprocessor", 210},
    {"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 251},
    {"cudaPeekAtLastError", 11},
    {"cudaPointerGetAttributes", 151},
    {"cudaRuntimeGetVersion", 2},
    {"cudaSetDevice", 16},
    {"cudaSetDeviceFlags", 19},
    {"cudaStreamAddCallback", 197},
    {"cudaStreamBeginCapture", 315},
    {"cudaStreamCreate", 129},
    {"cudaStreamCreateWithFlags", 198},
    {"cudaStreamCreateWithPriority", 202},
    {"cudaStreamDestroy", 201},
    {"cudaStreamEndCapture", 319},
    {"cudaStreamGetCaptureInfo", 324},
    {"cudaStreamGetCaptureInfo_v2", 409},
    {"cudaStreamGetDevice", 480},
    {"cudaStreamGetFlags", 204},
    {"cudaStreamGetId", 441},
    {"cudaStreamGetPriority", 203},
    {"cudaStreamIsCapturing", 317},
    {"cudaStreamQuery", 132},
    {"cudaStreamSynchronize", 131},
    {"cudaStreamUpdateCaptureDependencies", 411},
    {"cudaStreamWaitEvent", 147},
    {"cudaThreadExchangeStreamCaptureMode", 327},
};
constexpr Function kDriverFunctions[] = {
    {"cuCtxSynchronize", 17},
    {"cuEventRecord", 119},
    {"cuEventSynchronize", 121},
    {"cuLaunchCooperativeKernel", 477},
    {"cuLaunchKernel", 307},
    {"cuLaunchKernelEx", 652},
    {"cuMemAddressFree", 548},
    {"cuMemAddressReserve", 547},
    {"cuMemAlloc_v2", 243},
    {"cuMemCreate", 549},
    {"cuMemExportToShareableHandle", 554},
    {"cuMemFree_v2", 245},
    {"cuMemImportFromShareableHandle", 555},
    {"cuMemMap", 551},
    {"cuMemRelease", 550},
    {"cuMemSetAccess", 553},
    {"cuMemUnmap", 552},
    {"cuMemcpyAsync", 306},
    {"cuMemcpyDtoDAsync_v2", 281},
    {"cuMemcpyDtoHAsync_v2", 279},
    {"cuMemcpyDtoH_v2", 278},
    {"cuMemcpyHtoDAsync_v2", 277},
    {"cuMemcpyHtoD_v2", 276},
    {"cuMemsetD16Async", 218},
    {"cuMemsetD32Async", 220},
    {"cuMemsetD8Async", 216},
    {"cuModuleGetFunction", 23},
    {"cuModuleLoad", 18},
    {"cuModuleLoadData", 19},
    {"cuModuleLoadDataEx", 20},
    {"cuModuleUnload", 22},
    {"cuStreamSynchronize", 126},
    {"cuStreamWaitEvent", 295},
};

template <class Found>
Found search(device::Api api, Found otherwise, auto fits, auto get) {
  const bool runtime = api == device::Api::runtime;
  const Function* const begin =
      runtime ? std::begin(kRuntimeFunctions) : std::begin(kDriverFunctions);
  const Function* const end = runtime ? std::end(kRuntimeFunctions) : std::end(kDriverFunctions);
  const Function* const function = std::find_if(begin, end, fits);
  return function == end ? otherwise : get(*function);
}

}  // namespace

std::uint32_t number_of(device::Api api, const char* function) {
  const std::string_view name = function;
  return search(
      api, 0u, [&](const Function& f) { return f.name == name; },
      [](const Function& f) { return f.number; });
}

const char* name_of(device::Api api, std::uint32_t number) {
  return search(
      api, static_cast<const char*>(nullptr), [&](const Function& f) { return f.number == number; },
      [](const Function& f) { return f.name; });
}

}  // namespace tidemark::cupti
