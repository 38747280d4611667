// Outputs of all-gathers and the shards that they are gathered from, by their places in the
// allocator's history.
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/numbers/kernels.h"
#include "harness/virtual/numbers/numbers.h"

namespace tidemark::numbers {
namespace {

// (outputs, inputs, group, ...), of torch.distributed, and lists of them: of functional collectives
// and DTensor.
constexpr const char* kOperators[] = {"c10d::_allgather_base_",
                                      "c10d::allgather_into_tensor_coalesced_"};

struct Gathers {
  std::mutex mutex;
  std::vector<tidemark_numbers_gather> all;
  std::vector<c10::RegistrationHandleRAII> registrations;
};
// Never destroyed: the dispatcher may go first.
Gathers& noted_gathers() { return device::immortal<Gathers>(); }

void note(const at::Tensor& output, const at::Tensor& shard) {
  if (!output.is_cuda() || !shard.is_cuda()) return;
  const auto device = output.device().index();
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
  const auto address = [](const at::Tensor& tensor) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()));
  };
  Gathers& noted = noted_gathers();
  const std::lock_guard lock(noted.mutex);
  noted.all.push_back({device, stats.allocation[0].allocated, address(output), address(shard),
                       static_cast<std::int64_t>(shard.nbytes())});
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
}  // namespace tidemark::numbers

extern "C" [[gnu::visibility("default")]] void tidemark_numbers_note_gathers(int on) {
  using namespace tidemark::numbers;
  Gathers& noted = noted_gathers();
  noted.registrations.clear();
  if (on == 0) return;
  Quiet quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  for (const char* name : kOperators) {
    const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    noted.registrations.push_back(c10::Dispatcher::singleton().registerImpl(
        op->operator_name(), c10::DispatchKey::CUDA,
        gather_kernel(*op, kernel_of(*op, c10::DispatchKey::CUDA)), std::nullopt, nullptr,
        "tidemark numbers"));
  }
}

extern "C" [[gnu::visibility("default")]] size_t tidemark_numbers_gathers(
    tidemark_numbers_gather* rows, size_t count) {
  auto& noted = tidemark::numbers::noted_gathers();
  const std::lock_guard lock(noted.mutex);
  std::copy_n(noted.all.begin(), std::min(count, noted.all.size()), rows);
  return noted.all.size();
}
