// Pictures of a program's memory as the page carries them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"
#include "harness/record/record.h"

namespace tidemark {

struct PictureBudget {
  std::size_t packed = 1'500'000;  // bytes of all pictures, compressed
  std::size_t moments = 1 << 18;   // of a picture
};

/// Data of page/memory.js: the picture of every device under every schedule, equal ones once, the
/// highest first. Columns are differences where they ascend. Where the budget does not hold all
/// moments, those of the other pictures become fewer first. `page`: the file that will hold it, in
/// which links to lines of source lead to this machine's editor. Empty without a picture.
nlohmann::ordered_json picture_data(const Report& report, const std::vector<HighestPeak>& peaks,
                                    const std::filesystem::path& page,
                                    const PictureBudget& budget = {});

}  // namespace tidemark
