#include "harness/virtual/operators/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/PhiloxCudaState.h>

namespace tidemark::operators {

namespace {
at::Generator generator_of(const c10::IValue& value, c10::DeviceIndex index) {
  return value.isGenerator() ? value.toGenerator()
                             : at::cuda::detail::getDefaultCUDAGenerator(index);
}
}  // namespace

CapturedRandom captured_random(const c10::IValue& value, c10::DeviceIndex index) {
  const at::Generator generator = generator_of(value, index);
  TORCH_CHECK(generator.device().type() == c10::kCUDA, "a CUDA graph draws from CUDA generators");
  const auto state = generator.get<at::CUDAGeneratorImpl>()->philox_cuda_state(0);
  TORCH_CHECK(state.captured_, "the generator is not registered with the CUDA graph");
  return {state.seed_.ptr, state.offset_.ptr, state.offset_intragraph_};
}

RandomState random_state(const c10::IValue& value, c10::DeviceIndex index) {
  const at::Generator generator = generator_of(value, index);
  if (generator.device().type() != c10::kCUDA) return {};
  const auto* cuda = generator.get<at::CUDAGeneratorImpl>();
  return {cuda->current_seed(), cuda->philox_offset_per_thread()};
}

at::Generator cpu_generator(RandomState state) {
  // splitmix64 of both, so that neighbouring offsets give unrelated streams.
  std::uint64_t x = state.seed + 0x9e3779b97f4a7c15 * (state.offset + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return at::detail::createCPUGenerator(x ^ (x >> 31));
}

}  // namespace tidemark::operators
