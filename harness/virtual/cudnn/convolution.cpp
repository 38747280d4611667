#include "harness/virtual/cudnn/convolution.h"

#include <algorithm>
#include <numeric>

namespace tidemark::cudnn {
namespace {

std::int64_t product(const std::vector<std::int64_t>& sizes, std::size_t first = 0) {
  return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(first), sizes.end(),
                         std::int64_t{1}, std::multiplies<>());
}

std::string text_of(const std::vector<std::int64_t>& sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) text += (text == "[" ? "" : ", ") + std::to_string(size);
  return text + "]";
}

// In the workspace, with the channels in the places `dims` up to a multiple of 16 bytes.
std::size_t transformed(const Tensor& t, std::initializer_list<std::size_t> dims) {
  std::vector<std::int64_t> sizes = t.sizes;
  const auto unit = static_cast<std::int64_t>(16 / bytes_of(t.type));
  for (const std::size_t d : dims) sizes[d] = (sizes[d] + unit - 1) / unit * unit;
  return static_cast<std::size_t>(product(sizes)) * bytes_of(t.type);
}

}  // namespace

std::int64_t Tensor::elements() const { return product(sizes); }
std::size_t Tensor::bytes() const { return static_cast<std::size_t>(elements()) * bytes_of(type); }
bool Tensor::channels_last() const {
  if (sizes[1] == 1 || product(sizes, 2) == 1) return true;
  return strides[1] == 1;
}

std::optional<std::string> mistake_in(const Convolution& c) {
  const std::size_t dims = c.x.sizes.size();
  if (dims < 3 || dims > 5 || c.w.sizes.size() != dims || c.y.sizes.size() != dims)
    return "a convolution has tensors of three to five dimensions, all three alike";
  for (const auto* each : {&c.before, &c.after, &c.strides, &c.dilations})
    if (each->size() != dims - 2)
      return "a convolution has one padding, stride and dilation for each spatial dimension";
  for (const Tensor* t : {&c.x, &c.w, &c.y})
    for (const std::int64_t size : t->sizes)
      if (size < 1) return "a tensor of a convolution has the size " + text_of(t->sizes);
  if (c.x.type != c.w.type || c.x.type != c.y.type) return "the tensors have different types";
  const auto &x = c.x.sizes, &w = c.w.sizes, &y = c.y.sizes;
  if (x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0)
    return "channels " + text_of(x) + " are no whole number of groups of the filter " + text_of(w);
  if (y[0] != x[0] || y[1] != w[0])
    return "the output " + text_of(y) + " has not the batch of " + text_of(x) +
           " and the channels of " + text_of(w);
  for (std::size_t d = 0; d + 2 < dims; ++d) {
    if (c.strides[d] < 1 || c.dilations[d] < 1 || c.before[d] < 0 || c.after[d] < 0)
      return "a stride or dilation is below 1, or a padding below 0";
    const std::int64_t window = c.dilations[d] * (w[d + 2] - 1) + 1;
    const std::int64_t room = x[d + 2] + c.before[d] + c.after[d] - window;
    if (room < 0 || room / c.strides[d] + 1 != y[d + 2])
      return "the output " + text_of(y) + " does not follow from " + text_of(x) +
             " and the filter " + text_of(w);
  }
  return std::nullopt;
}

bool on_tensor_cores(const Convolution& c, int capability) {
  return (c.x.type == f16 && capability >= 70) ||
         ((c.x.type == bf16 || c.x.type == f32) && capability >= 80);
}

bool without_tensor_cores(const Convolution& c) {
  return c.x.type == f32 || c.x.type == f64 || c.x.type == f16;
}

device::Cost cost_of(const Convolution& c, bool tensor_cores) {
  return {.flops = 2.0 * static_cast<double>(c.y.elements()) *
                   static_cast<double>(product(c.w.sizes, 1)),
          .number = number_of(c.x.type, tensor_cores),
          .bytes = static_cast<double>(c.x.bytes() + c.w.bytes() + c.y.bytes())};
}

namespace {

// The engines of Hopper (recorded on an H100, cuDNN 9.19,
// reports/measured/h100-80g/asked.jsonl.xz).
std::size_t workspace_on_hopper(const Convolution& c) {
  const std::int64_t channels = c.x.sizes[1], filters = c.w.sizes[0];
  const auto element = static_cast<std::int64_t>(bytes_of(c.x.type)), unit = 16 / element;
  const bool grouped = c.groups() > 1, few = std::min(channels, filters) < 8;
  if (grouped && c.groups() == channels) return 0;
  const auto x = grouped ? c.x.bytes() : transformed(c.x, {1});
  const auto w = grouped ? c.w.bytes() : transformed(c.w, {0, 1});
  const auto y = grouped ? c.y.bytes() : transformed(c.y, {1});
  if (!c.x.channels_last() || !c.w.channels_last() || !c.y.channels_last()) {
    const bool product_of_matrices = product(c.w.sizes, 2) == 1 && product(c.strides) == 1 &&
                                     product(c.x.sizes, 2) * element % 16 == 0;
    if (product_of_matrices || (few && (c.x.type == f32 || c.direction == Direction::forward)))
      return 0;
    return x + w + y + 16;
  }
  if (grouped || (few && c.x.type == f32)) return 0;
  const bool pads_x = channels % unit != 0, pads_y = filters % unit != 0;
  return (pads_x ? x : 0) + (pads_y ? y : 0) + (pads_x || pads_y ? w : 0);
}

}  // namespace

std::size_t workspace_of(const Convolution& c, bool tensor_cores, int capability) {
  if (!tensor_cores) return 0;
  if (capability == 90) return workspace_on_hopper(c);
  const bool grouped = c.groups() > 1;
  const auto of = [&](const Tensor& t, bool filter) -> std::size_t {
    if (t.channels_last()) return 0;
    if (grouped) return t.bytes();
    return filter ? transformed(t, {0, 1}) : transformed(t, {1});
  };
  const bool result_too = capability >= 100;
  const auto part = [&](const Tensor& t, bool filter, Direction written_by) {
    return c.direction != written_by || result_too ? of(t, filter) : 0;
  };
  const std::size_t sum = part(c.x, false, Direction::backward_data) +
                          part(c.w, true, Direction::backward_filter) +
                          part(c.y, false, Direction::forward);
  return sum > 0 ? sum + 512 : 0;
}

}  // namespace tidemark::cudnn
