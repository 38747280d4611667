// Decoder of PyTorch's memory snapshots.
#pragma once

#include <string_view>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Of a pickle or of JSON. Throws SnapshotError, without the file's name.
Snapshot decoded(std::string_view bytes, bool json);

}  // namespace tidemark
