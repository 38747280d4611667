// The page of a PyTorch memory snapshot: the same picture as on a program's page.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// `file`: the snapshot's; `page`: the file that will hold the page, or empty; `top`: the number of
/// rows of each list. Gives the snapshot back before the page is written.
std::string snapshot_page(Snapshot snapshot, const std::filesystem::path& file, std::size_t top,
                          const std::filesystem::path& page = {});

}  // namespace tidemark
