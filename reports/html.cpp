#include "reports/html.h"

#include <stdexcept>

#include "reports/page_data.h"

namespace tidemark {

extern const std::string_view kPage;  // from page/, by embed.py

std::string html(const Report& report) {
  constexpr std::string_view kHole = "@DATA@";
  std::string page(kPage);
  const auto hole = page.find(kHole);
  if (hole == std::string::npos)
    throw std::logic_error("page/index.html has no " + std::string(kHole));
  return page.replace(hole, kHole.size(), packed_page_data(report));
}

}  // namespace tidemark
