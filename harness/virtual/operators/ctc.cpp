// CTC loss as cuDNN computes it: of the softmax of what it is given, together with the gradient.
#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/refusal.h"

namespace tidemark::operators {
namespace {

std::vector<std::int64_t> lengths(const c10::IValue& value) {
  if (!value.isTensor()) return value.toIntVector();
  const at::Tensor all = value.toTensor().to(at::kLong).contiguous();
  return {all.const_data_ptr<std::int64_t>(), all.const_data_ptr<std::int64_t>() + all.numel()};
}

// _cudnn_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, deterministic,
// zero_infinity) -> (losses, gradient of their sum)
void ctc_loss(HostCall& call) {
  const at::Tensor log_probs = tensor_at(call, 0).log_softmax(-1), targets = tensor_at(call, 1);
  const std::vector<std::int64_t> inputs = lengths(call.stack[2]), labels = lengths(call.stack[3]);
  const std::int64_t blank = call.stack[4].toInt();
  const auto [losses, alphas] = at::_ctc_loss(log_probs, targets, inputs, labels, blank, false);
  // cuDNN's answer for it is not documented.
  if (at::isinf(losses).any().item<bool>())
    refuse<c10::NotImplementedError>(
        call.op.schema().name(),
        " has no numbers where a sequence is too short for its labels: with "
        "torch.backends.cudnn.enabled = False PyTorch's own kernel computes the loss");
  give(call, losses,
       at::_ctc_loss_backward(at::ones_like(losses), log_probs, targets, inputs, labels, losses,
                              alphas, blank, false));
}

}  // namespace

void add_ctc(Compositions& table) {
  for (const char* name : {"aten::_cudnn_ctc_loss", "aten::_cudnn_ctc_loss.Tensor"})
    table[name] = ctc_loss;
}

}  // namespace tidemark::operators
