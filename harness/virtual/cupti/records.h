// Records of what the device has noted, in CUPTI's layout.
#pragma once

#include <bitset>
#include <cstddef>
#include <vector>

#include "harness/virtual/cupti/layout.h"
#include "harness/virtual/device/activity.h"

namespace tidemark::cupti {

using Kinds = std::bitset<kKinds>;

/// The kinds that are recorded here.
bool is_recorded(RecordKind kind);
/// Bytes of a record, or 0 if there is none of the kind.
std::size_t size_of(RecordKind kind);

/// Records that belong together: a call, the ids that the profiler has pushed for it, and what it
/// has put onto the device.
using Group = std::vector<std::byte>;
/// Groups of these kinds alone. `left_out`: numbers of functions of the runtime and of the driver.
std::vector<Group> groups_of(const device::Activities& activities, const Kinds& kinds,
                             const std::vector<std::uint32_t> (&left_out)[3]);

}  // namespace tidemark::cupti
