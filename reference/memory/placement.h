// Addresses of new segments in the allocator's model, as the driver would choose them. Only their
// order matters: of free blocks of one size the allocator takes the one with the lowest address.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tidemark::reference {

/// The rule of a driver. Of Linux: downwards in chunks of 32 MiB and their multiples, but first in
/// the rest of the newest chunk that has room. Of WSL2, once kernels ran and cuBLAS has a handle:
/// upwards, and while there is room in the `low` bytes below the first address, there. Ascending:
/// upwards.
struct Placement {
  enum Rule { of_linux, of_wsl2, ascending };
  Rule rule;
  std::int64_t low;
  Placement(Rule of = of_linux, std::int64_t low_bytes = 0) : rule(of), low(low_bytes) {}
};

/// "linux", "wsl2", "wsl2:FIRST,SECOND" (MiB), "ascending"; empty is linux. Throws
/// std::invalid_argument for another name.
Placement placement_named(std::string_view name);

/// Segments are never given back: the model has no capacity.
class Addresses {
 public:
  explicit Addresses(Placement placement) : placement_(placement) {}
  std::int64_t next(std::int64_t bytes);

 private:
  std::int64_t next_downwards(std::int64_t bytes);
  struct Rest {
    std::int64_t begin, bytes;
  };
  const Placement placement_;
  std::vector<Rest> rests_;  // of the chunks, oldest first
  std::int64_t lowest_ = 0, low_ = 0, highest_ = 0;
};

}  // namespace tidemark::reference
