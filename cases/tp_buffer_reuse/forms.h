// The forms of the scenario: for each phase the few moments that can be its highest, each a sum of
// named amounts (amounts.h), at any size, on any number of ranks, under any policy that is right.
//
// A layer keeps of a microbatch, for backward,
//   2*X + 2*s    inputs and statistics of its two norms
//   2*F          gathered inputs of its two column linears; 2*X where they are gathered again
//   A            attention; X more in single precision with several sequences, whose output is
//                copied with the sequence outside
//   g + f        gate and up, and the GLU's output; f more where the GLU is eager
// and a microbatch X more than its layers: the output of the last one.
//
// Forward peaks in the last layer of the last microbatch, where the last row linear has made its
// partial sum F and the scattered X, and not yet the layer's output; or, where flash divides the
// keys into parts, in the last layer's attention, with S.
//
// Backward frees a microbatch layer by layer, from the top. The first microbatch leaves P of
// gradients a layer; in every later one a weight's gradient is added to that, and freed. A layer
// keeps either more than P or less, so the peak is at the first microbatch's top layer or at its
// lowest, or at the second microbatch's top layer. Below the top layer, the gradient of the output
// is held beside that of the residual stream, so that the second layer can be higher than the top
// one, by less than X. Within a layer the peak is at one of six operators, those that make more
// than they free.
#pragma once

#include <vector>

#include "cases/tp_buffer_reuse/model.h"
#include "cases/tp_buffer_reuse/variants.h"
#include "harness/scenario.h"
#include "reference/memory/replay.h"

namespace tidemark::tp_buffer_reuse {

/// Peaks and ends of forward, backward and optimizer of a step after the first.
std::vector<Expectation> forms(const Dimensions& sizes, const Layout& layout,
                               const reference::DeviceFacts& device);

}  // namespace tidemark::tp_buffer_reuse
