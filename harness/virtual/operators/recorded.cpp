#include "harness/virtual/operators/recorded.h"

#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdio>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/kernels.h"
#include "harness/virtual/operators/plain.h"

namespace tidemark::operators {
namespace {

int launch_recorded(void* recorded, const char* what) {
  try {
    static_cast<Recorded*>(recorded)->launch();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidemark: %s failed: %s\n", what, error.what());
    return 1;
  }
}

void destroy(void* recorded) { delete static_cast<Recorded*>(recorded); }

c10::IValue alias_for_later(const c10::IValue& value, bool by_memory) {
  if (!by_memory && value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu())
    return value.toTensor().clone();
  return host_alias(value);
}

}  // namespace

c10::DeviceIndex device_of(const std::vector<c10::IValue>& arguments) {
  for (const c10::IValue& value : arguments)
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda())
      return value.toTensor().device().index();
  return c10::cuda::current_device();
}

void await_collectives(const std::vector<c10::IValue>& arguments) {
  device.await_stream(c10::cuda::getCurrentCUDAStream(device_of(arguments)).stream());
}

bool is_captured(const std::vector<c10::IValue>& arguments) {
  if (!device.captures_under_way()) return false;
  return device.is_capturing(c10::cuda::getCurrentCUDAStream(device_of(arguments)).stream()) != 0;
}

Recorded::Recorded(const c10::OperatorHandle& op, const Signature& signature, HostKernel compose,
                   const std::vector<c10::IValue>& arguments,
                   const std::vector<c10::IValue>& outputs, std::optional<CapturedRandom> random)
    : op_(op),
      name_(signature.name),
      compose_(std::move(compose)),
      fresh_(signature.fresh),
      generator_(signature.generator),
      random_(random) {
  const Plain plain;
  const bool by_memory = name_ == "aten::copy_";
  for (const c10::IValue& value : arguments) host_.push_back(alias_for_later(value, by_memory));
  for (const c10::IValue& value : outputs) outputs_.push_back(host_alias(value));
}

void Recorded::launch() {
  if (!knowledge) return compute();
  const auto known = [](const Place& place) { return place.is_known(); };
  bool computed = knowledge->computes && std::ranges::all_of(knowledge->reads, known);
  try {
    if (computed) compute();
  } catch (const c10::Error& error) {
    if (!is_missing(error)) throw;
    computed = false;
  }
  for (const Place& place : knowledge->writes) place.mark(computed);
}

void Recorded::compute() {
  const Plain plain;
  torch::jit::Stack stack = host_;
  const RandomState random = random_ ? random_->state() : RandomState();
  if (generator_ >= 0) stack[static_cast<std::size_t>(generator_)] = cpu_generator(random);
  HostCall call{op_, stack, outputs_, random};
  run_host_kernel(call, compose_);
  for (std::size_t i = 0; i < fresh_.size(); ++i)
    if (fresh_[i]) store(outputs_[i], stack[i], name_);
}

bool Recorded::keep(std::unique_ptr<Recorded>& recorded) {
  const auto run = [](void* one) { return launch_recorded(one, "a CUDA graph"); };
  if (device.capture_effect(run, recorded.get(), &destroy) == 0) return false;
  recorded.release();
  return true;
}

void Recorded::await(std::unique_ptr<Recorded> recorded, const at::Tensor& signals) {
  const auto run = [](void* one) {
    return launch_recorded(one, "a product that waited for signals");
  };
  const std::string name = recorded->name_;
  device.run_when_signalled(c10::cuda::getCurrentCUDAStream(signals.device().index()).stream(),
                            static_cast<const std::uint32_t*>(signals.const_data_ptr()),
                            static_cast<std::size_t>(signals.numel()), name.c_str(), run,
                            recorded.release(), &destroy);
}

}  // namespace tidemark::operators
