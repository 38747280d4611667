// Common part of the plans of a training step: memory taken and given back in the model of the
// caching allocator, by phase, and the temporaries of the operators around sharded parameters. The
// plan of a case derives from it and says what its algorithm
// takes, when, and on which stream.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reference/memory/allocator.h"

namespace tidemark::reference {

/// Facts of the device that a plan needs: cuBLAS's workspace, the number of threads that fill the
/// device (it decides into how many blocks a copy-out is divided, whose table is a temporary), and
/// the driver's placement of new segments.
struct DeviceFacts {
  std::int64_t workspace_bytes = 0;
  std::int64_t processors = 0, threads_per_processor = 0;
  int capability = 0;                 // compute capability, 90 for 9.0
  std::int64_t shared_per_block = 0;  // bytes that a kernel may opt in to
  Placement placement = Placement::of_linux;
};

struct Extent {
  std::int64_t peak = 0, end = 0;  // bytes
};

/// The last step by phase: peak and end in bytes by statistic (allocated, active, reserved,
/// requested), and the accounts of both.
struct Predicted {
  std::map<std::string, std::array<Extent, 4>> phases;
  struct Accounts {
    Allocator::Peaks peaks;
    Account allocated, active;  // at the end
  };
  std::map<std::string, Accounts> accounts;
};

inline std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Bytes of the table that split_with_sizes_copy takes along, of `chunks` bytes a parameter and
/// rank (aten/src/ATen/native/cuda/TensorShape.cu, contiguous without a cast): for every
/// parameter source, destination and size, a running count of blocks, and one index a block. A
/// block is 128 threads of 16 bytes.
std::int64_t copy_out_table(const std::vector<std::int64_t>& chunks, std::int64_t ranks,
                            const DeviceFacts& device);
/// Bytes of the table of _chunk_cat: five values a parameter, two running sums, one index a block.
std::int64_t copy_in_table(const std::vector<std::int64_t>& chunks);

class Replay {
 public:
  using Handle = Allocator::Handle;
  /// Memory that lives as long as its last holder, as a tensor's does.
  using Tensor = std::shared_ptr<Allocator::Block>;
  enum Stream { compute, copy_in, communication, reduction };

 protected:
  Replay(const DeviceFacts& device, std::int64_t ranks, bool instant)
      : device_(device), ranks_(ranks), memory_(instant, device.placement) {}

  Handle take(const Amount& amount, Stream stream = compute) {
    return memory_.allocate(amount, stream);
  }
  Tensor hold(const Amount& amount) {
    return {take(amount), [this](auto* block) { memory_.free(block); }};
  }
  /// cuBLAS takes its workspace at the first product of a thread, and keeps it.
  void multiplied(bool& before) {
    if (!std::exchange(before, true)) take(device_.workspace_bytes);
  }
  void passing(std::int64_t bytes) { memory_.free(take(bytes)); }

  /// A phase begins, and the one before ends.
  void begin(const std::string& phase);
  void end();

  const DeviceFacts device_;
  const std::int64_t ranks_;
  Allocator memory_;
  Predicted predicted_;
  std::string phase_;  // empty between phases
};

}  // namespace tidemark::reference
