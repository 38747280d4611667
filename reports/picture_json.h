// A picture of memory over time as pages carry it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/memory/picture.h"

namespace tidemark {

/// Data of page/course.js. Columns are differences where they ascend.
nlohmann::ordered_json picture_json(const MemoryPicture& picture);

}  // namespace tidemark
