#include "harness/virtual/operators/gathers.h"

#include <algorithm>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/operators/kernels.h"
#include "harness/virtual/recorder/recorder.h"

namespace tidemark::operators {
namespace {

// (outputs, inputs, group, ...), of torch.distributed, and lists of them: of functional collectives
// and DTensor.
constexpr const char* kOperators[] = {"c10d::_allgather_base_",
                                      "c10d::allgather_into_tensor_coalesced_"};

void note(const at::Tensor& output, const at::Tensor& shard) {
  if (!output.is_cuda() || !shard.is_cuda()) return;
  recorder::note_gather(output.const_data_ptr(), shard.const_data_ptr(),
                        static_cast<std::int64_t>(shard.nbytes()));
}

Kernel gather_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([count = op.schema().arguments().size(),
                original = std::move(original)](const Invocation& call) {
    const c10::IValue* arguments = call.last(count);
    if (arguments[0].isTensor()) {
      note(arguments[0].toTensor(), arguments[1].toTensor());
    } else {
      const auto outputs = arguments[0].toTensorVector(), shards = arguments[1].toTensorVector();
      for (std::size_t i = 0; i < std::min(outputs.size(), shards.size()); ++i)
        note(outputs[i], shards[i]);
    }
    call.run(original);
  });
}

}  // namespace

void note_gathers() {
  // Never destroyed: the dispatcher may go first.
  auto& registrations = device::immortal<std::vector<c10::RegistrationHandleRAII>>();
  Quiet quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  for (const char* name : kOperators) {
    const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    registrations.push_back(c10::Dispatcher::singleton().registerImpl(
        op->operator_name(), c10::DispatchKey::CUDA,
        gather_kernel(*op, kernel_of(*op, c10::DispatchKey::CUDA)), std::nullopt, nullptr,
        "tidemark numbers"));
  }
}

}  // namespace tidemark::operators
