// A file of TensorBoard's events.
#pragma once

#include <string>
#include <string_view>

namespace tidemark {

/// A file that TensorBoard's own EventFileWriter (2.21.0) wrote: a scalar as PyTorch's
/// SummaryWriter logs it, and one as TensorFlow 2 does, in both of its forms.
inline std::string events_file() {
  constexpr std::string_view kHex =
      "4800000000000000fe92489d09e5ffc05be2c1da411a0d627261696e2e4576656e743a32522e0a2c74656e73"
      "6f72626f6172642e73756d6d6172792e7772697465722e6576656e745f66696c655f7772697465728b419ce6"
      "200000000000000029eda95009000000000000f03f10032a130a110a0a4c6f73732f747261696e1500002040"
      "8476cd5c300000000000000095f5d05f09000000000000004010042a230a110a0a4c6f73732f747261696e15"
      "cdcccc3d0a0e0a026c72420808012a040000803e74562b001d00000000000000602fdf230900000000000008"
      "4010052a100a0e0a026c724208080122040000003f4b90c4b4";
  std::string bytes;
  for (std::size_t i = 0; i < kHex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16));
  return bytes;
}

}  // namespace tidemark
