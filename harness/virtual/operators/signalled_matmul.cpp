// A product whose kernel waits for its operand: chunks of rows, each with a signal that another
// stream sets when it has brought the rows (fused_all_gather_matmul of symmetric memory). The
// calling thread goes on meanwhile, since its later calls set the signals.
#include <memory>

#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/frame.h"
#include "harness/virtual/operators/kernels.h"
#include "harness/virtual/operators/recorded.h"
#include "harness/virtual/operators/refusal.h"
#include "harness/virtual/operators/signature.h"

namespace tidemark::operators {
namespace {

// _async_input_mm(a, b, a_chunk_signals, a_chunk_pivot): the pivot is the chunk that comes first.
void mm_of_chunk(HostCall& call) { give(call, at::mm(tensor_at(call, 0), tensor_at(call, 1))); }

}  // namespace

Kernel signalled_matmul_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([signature = Signature(op), original = std::move(original)](const Invocation& call) {
    const std::vector<c10::IValue> arguments = call.values(signature.arguments);
    await_collectives(arguments);
    if (is_captured(arguments))
      refuse<c10::NotImplementedError>(signature.name,
                                       " has no numbers in a CUDA graph (mode math)");
    {
      Bracket bracket(signature.name.c_str());
      bracket.bytes = signature.argument_bytes(arguments.data());
      const SuspendData suspended;
      const Frame frame{signature, arguments};
      const Inside inside(&frame);
      call.run(original);
      bracket.bytes += signature.result_bytes(call.last(signature.returns));
    }
    Recorded::await(std::make_unique<Recorded>(call.op, signature, mm_of_chunk, arguments,
                                               call.values(signature.returns), std::nullopt),
                    arguments[2].toTensor());
  });
}

}  // namespace tidemark::operators
