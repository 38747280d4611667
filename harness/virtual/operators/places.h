// Places of the program from which operators are called, for the reports of races.
#pragma once

#include <string>

namespace tidemark::operators {

/// The operator with its place, where tidemark_layer_on_place has a listener: "aten::mul.Tensor
/// at step train.py:9", in the backward "aten::mul.Tensor in MulBackward0". Lives for ever, as the
/// race detector wants its names.
const char* with_place(const std::string& name);

}  // namespace tidemark::operators
