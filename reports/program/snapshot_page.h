// The page of PyTorch memory snapshots: the same picture as on a program's page.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"
#include "reports/program/changes.h"
#include "reports/program/explanation.h"

namespace tidemark {

/// The page of what was explained, with pictures; the changes are of the first device. `page`: the
/// file that will hold the page, or empty; `top`: the number of rows of each list.
std::string snapshot_page(std::vector<ExplainedDevice> all, const ChangesTried& changes,
                          std::size_t top, const std::filesystem::path& page = {});

/// The page of one snapshot, of which nothing was tried. Gives the snapshot back before the page is
/// written.
std::string snapshot_page(Snapshot snapshot, const std::filesystem::path& file, std::size_t top,
                          const std::filesystem::path& page = {});

}  // namespace tidemark
