// A picture of memory over time as pages carry it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "harness/memory/picture.h"

namespace tidemark {

/// The stacks of all pictures of a page, each once.
class PageCalls {
 public:
  /// `most`: calls of the page.
  explicit PageCalls(std::size_t most = 1 << 15) : most_(most) {}
  /// The page's number of each call of the picture; -1: left out, since the page has enough. Stacks
  /// of the largest blocks come first.
  std::vector<std::int64_t> take(const MemoryPicture& picture);
  /// Data of page/calls.js.
  nlohmann::ordered_json json() const;

 private:
  std::size_t most_;
  CallTree calls_;
  std::map<std::uint32_t, std::string> sources_;
};

/// Data of page/course.js. Columns are differences where they ascend. `calls`: of PageCalls.
nlohmann::ordered_json picture_json(const MemoryPicture& picture,
                                    const std::vector<std::int64_t>& calls);

}  // namespace tidemark
