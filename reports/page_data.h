// The data of report.html: the report without what the page does not show, compressed. report.json
// stays whole beside it.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "harness/memory/picture.h"
#include "harness/record/record.h"

namespace tidemark {

/// Limits of a page's part of a report. The page counts what is left out.
struct PageBudget {
  std::size_t assertions =
      50'000;  // verdicts that differ in the rank alone count once; failed ones stay longest
  std::size_t races = 20;          // a rank
  std::size_t moments = 1500;      // of the picture of a variant's memory
  std::size_t packed = 4'500'000;  // bytes, compressed
};

/// Fields of the record as report.json has them, and what page/data.js reads besides. Variants that
/// `base` has too carry its figures. A variant has the place of its picture in "pictures", where
/// equal ones stand once.
nlohmann::ordered_json page_data(const Report& report, const PageBudget& budget = {},
                                 const Report* base = nullptr);

/// page_data as gzipped JSON in base64, moments of pictures, then assertions
/// halved until the budget holds. The
/// same report gives the same bytes.
std::string packed_page_data(const Report& report, const Report* base = nullptr,
                             PageBudget budget = {});

/// Memory of a variant's rank with the highest peak, in at most `moments` moments; none where no
/// memory was kept.
std::optional<MemoryPicture> picture_of(const VariantRecord& variant, std::size_t moments);

/// Gzipped JSON in base64.
std::string packed(const nlohmann::ordered_json& data);

}  // namespace tidemark
