// Activation checkpointing without a backward inside the backward. The tensors that a block saves
// are dropped, and the block is run again when the first of them is needed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace tidemark::zero_bubble_detach {

/// block(input), with the input alone kept for the backward (as torch.utils.checkpoint with
/// use_reentrant=False). A backward that unpacks one of the block's saved tensors runs the block
/// once more, up to the last tensor it saved, and keeps what the others will need until they are
/// unpacked, or for ever where they never are: their nodes hold it. Each run of the engine that
/// needs one runs the block again. `block` must be a function of its input and of parameters: one
/// that saves other tensors when it is run again ends the backward with a std::runtime_error.
at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& input);

/// Blocks run again in this process so far.
std::int64_t recomputations();

}  // namespace tidemark::zero_bubble_detach
