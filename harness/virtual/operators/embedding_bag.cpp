// Sums of embeddings by bag: CUDA's kernel returns, beside the sums, the bag of every index and the
// size of every bag in other shapes than the CPU's.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// _embedding_bag(weight, indices, offsets, scale, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx) -> (output, offset2bag, bag_size, max_indices)
void embedding_bag(HostCall& call) {
  const at::Tensor indices = tensor_at(call, 1), offsets = tensor_at(call, 2);
  const bool has_end = call.stack[7].toBool();
  const std::int64_t padding = call.stack[8].toInt();
  run_cpu_kernel(call);
  const std::int64_t bags = offsets.size(0) - (has_end ? 1 : 0);
  const at::Tensor begin = offsets.narrow(0, 0, bags);
  const at::Tensor end =
      has_end ? offsets.narrow(0, 1, bags)
              : at::cat({offsets.slice(0, 1), at::full({1}, indices.numel(), offsets.options())});
  const at::Tensor bag = at::repeat_interleave(at::arange(bags, offsets.options()), end - begin);
  const at::Tensor sizes = at::zeros({bags}, offsets.options())
                               .index_add(0, bag, indices.ne(padding).to(offsets.dtype()));
  // CUDA's sizes have a place for the end too; the places of maxima are the CPU's or none.
  const at::Tensor padded = has_end ? at::cat({sizes, at::zeros({1}, sizes.options())}) : sizes;
  const at::Tensor others[] = {bag, padded, {}};
  for (std::size_t i = 1; i < call.stack.size(); ++i)
    if (call.stack[i].toTensor().sizes() != call.outputs[i].toTensor().sizes())
      call.stack[i] = others[i - 1];
}

}  // namespace

void add_embedding_bag(Compositions& table) {
  table["aten::_embedding_bag"] = table["aten::_embedding_bag_forward_only"] = embedding_bag;
}

}  // namespace tidemark::operators
