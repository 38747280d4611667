// Pictures of a program's memory as the page carries them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"
#include "harness/record/units.h"

namespace tidemark {

struct PictureBudget {
  std::size_t packed = 1'500'000;  // bytes of all pictures, compressed
  std::size_t moments = 1 << 18;   // of a picture
};

/// What the pictures are drawn on.
struct PicturePlace {
  std::string gpu = {};
  Bytes capacity = 0;  // what PyTorch can have of it; 0: not known
  /// The file that will hold the page, in which links to lines of source lead to this machine's
  /// editor; empty: another one.
  std::filesystem::path page = {};
};

/// Data of page/memory.js: the picture of every device under every schedule, equal ones once, the
/// highest first. Columns are differences where they ascend. Where the budget does not hold all
/// moments, those of the other pictures become fewer first. Empty without a picture.
nlohmann::ordered_json picture_data(const std::vector<HighestPeak>& peaks,
                                    const PicturePlace& place, const PictureBudget& budget = {});

/// The picture that the page shows first: of a device that ran out of memory it is that of the run
/// with room. nullptr where there is none.
const MemoryPicture* first_picture(const std::vector<HighestPeak>& peaks);

}  // namespace tidemark
