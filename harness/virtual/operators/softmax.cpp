// Activations whose CUDA form has other dtypes or outputs. CUDA's softmax can read half precision
// and write single precision in one operator; the CPU's cannot.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// _softmax(self, dim, half_to_float[, out]) and _log_softmax
void forward(HostCall& call) {
  if (call.stack[2].toBool()) {
    call.stack[0] = tensor_at(call, 0).to(at::kFloat);
    call.stack[2] = false;
  }
  run_cpu_kernel(call);
}

// _softmax_backward_data(grad_output, output, dim, input_dtype) and _log_softmax_backward_data: the
// gradient is computed in the dtype of grad_output; storing it converts.
void backward(HostCall& call) {
  call.stack[3] = static_cast<std::int64_t>(tensor_at(call, 0).scalar_type());
  run_cpu_kernel(call);
}

// log_sigmoid_forward(self) -> (output, buffer): the buffer is the CPU's alone; CUDA's is empty.
void log_sigmoid(HostCall& call) {
  run_cpu_kernel(call);
  call.stack[1] = at::Tensor();
}
// log_sigmoid_backward(grad_output, self, buffer)
void log_sigmoid_backward(HostCall& call) {
  call.stack[2] = std::get<1>(at::log_sigmoid_forward(tensor_at(call, 1)));
  run_cpu_kernel(call);
}

}  // namespace

void add_softmax(Compositions& table) {
  table["aten::_softmax"] = table["aten::_log_softmax"] = forward;
  table["aten::log_sigmoid_forward"] = log_sigmoid;
  table["aten::log_sigmoid_backward"] = log_sigmoid_backward;
  table["aten::_softmax_backward_data"] = table["aten::_log_softmax_backward_data"] = backward;
}

}  // namespace tidemark::operators
