// Connectionist temporal classification, the interface of cuDNN 7 (lengths on the host) and of 8
// and 9 (lengths on the device).
#include <algorithm>

#include "harness/virtual/cudnn/descriptors.h"

namespace tidemark::cudnn {
namespace {

struct Ctc {
  int type = f32;
  int longest = 0;  // labels of a sequence
};

/// Steps, sequences and symbols of the probabilities.
struct Extent {
  std::size_t steps = 0, sequences = 0, symbols = 0;
};

Status extent_of(const Shape* probabilities, Extent* to) {
  if (!made(probabilities))
    return fail(null_pointer, "the descriptor of the probabilities is null or none of cuDNN's");
  if (probabilities->sizes.size() < 3)
    return fail(bad_param, "the probabilities of a CTC loss have three dimensions");
  const auto size = [&](std::size_t i) {
    return static_cast<std::size_t>(probabilities->sizes[i]);
  };
  *to = {size(0), size(1), size(2)};
  return success;
}

// The forward and the backward variables (Graves et al., 2006, section 4.1): for each step and
// sequence one for each label and each blank between and around them. What cuDNN keeps beside them
// is not known.
std::size_t workspace_of(const Extent& x, std::size_t longest) {
  return 2 * x.sequences * x.steps * (2 * longest + 1) * bytes_of(f32);
}

Status say_workspace(const Shape* probabilities, auto longest_in, std::size_t* bytes) {
  Extent x;
  if (const Status status = extent_of(probabilities, &x)) return status;
  *bytes = modelled(workspace_of(x, longest_in(x)));
  return success;
}

Status loss(const Handle* handle, const Shape* probabilities, std::size_t given,
            std::size_t longest) {
  Extent x;
  if (const Status status = extent_of(probabilities, &x)) return status;
  const std::size_t needed = workspace_of(x, longest);
  if (given < needed) return fail(bad_param, "the workspace of the CTC loss is too small");
  const auto elements = static_cast<double>(x.steps * x.sequences * x.symbols);
  return run(handle, "CTCLoss", {.bytes = 3 * 4 * elements + 2 * static_cast<double>(needed)});
}

std::size_t longest_of(const Extent& x, const int* lengths) {
  const int* const end = lengths + x.sequences;
  return x.sequences ? static_cast<std::size_t>(std::max(0, *std::max_element(lengths, end))) : 0;
}

}  // namespace
}  // namespace tidemark::cudnn

using namespace tidemark::cudnn;

KIND(CTCLoss, Ctc)

CUDNN int cudnnSetCTCLossDescriptorEx(Ctc* ctc, int type, int, int) {
  if (!made(ctc))
    return fail(null_pointer,
                "cudnnSetCTCLossDescriptorEx: the descriptor is null or none of cuDNN's");
  *ctc = {.type = type};
  return success;
}
CUDNN int cudnnSetCTCLossDescriptor_v9(Ctc* ctc, int type, int, int, int longest) {
  if (!made(ctc))
    return fail(null_pointer,
                "cudnnSetCTCLossDescriptor_v9: the descriptor is null or none of cuDNN's");
  if (longest < 0 || longest > 255)
    return fail(bad_param, "cudnnSetCTCLossDescriptor_v9: a sequence has at most 255 labels");
  *ctc = {.type = type, .longest = longest};
  return success;
}

CUDNN int cudnnGetCTCLossWorkspaceSize(const Handle*, const Shape* probabilities, const Shape*,
                                       const int*, const int* lengths, const int*, int, const Ctc*,
                                       std::size_t* bytes) {
  if (!lengths || !bytes)
    return fail(null_pointer, "cudnnGetCTCLossWorkspaceSize: an argument is null");
  return say_workspace(
      probabilities, [&](const Extent& x) { return longest_of(x, lengths); }, bytes);
}
CUDNN int cudnnGetCTCLossWorkspaceSize_v8(const Handle*, int, const Ctc* ctc,
                                          const Shape* probabilities, const Shape*,
                                          std::size_t* bytes) {
  if (!made(ctc) || !bytes)
    return fail(null_pointer, "cudnnGetCTCLossWorkspaceSize_v8: an argument is null");
  return say_workspace(
      probabilities, [&](const Extent&) { return static_cast<std::size_t>(ctc->longest); }, bytes);
}

CUDNN int cudnnCTCLoss(const Handle* handle, const Shape* probabilities, const void*, const int*,
                       const int* lengths, const int*, void*, const Shape*, void*, int, const Ctc*,
                       void*, std::size_t given) {
  if (!lengths) return fail(null_pointer, "cudnnCTCLoss: the lengths are null");
  Extent x;
  if (const Status status = extent_of(probabilities, &x)) return status;
  return loss(handle, probabilities, given, longest_of(x, lengths));
}
CUDNN int cudnnCTCLoss_v8(const Handle* handle, int, const Ctc* ctc, const Shape* probabilities,
                          const void*, const int*, const int*, const int*, void*, const Shape*,
                          void*, std::size_t given, void*) {
  if (!made(ctc))
    return fail(null_pointer, "cudnnCTCLoss_v8: the descriptor is null or none of cuDNN's");
  return loss(handle, probabilities, given, static_cast<std::size_t>(ctc->longest));
}
