// Bars of what is alive at peaks, in the colours of the kinds.
#pragma once

#include <string>
#include <vector>

#include "harness/record/program.h"
#include "reports/html.h"

namespace tidemark {

struct KindBar {
  std::string name, role;  // before the bar; the role is quiet
  const AliveAtPeak* alive = nullptr;
  std::string note = {};  // a line above the bar; empty: none
};

/// With a legend, on one scale. No picture where nothing is alive in any.
std::vector<Picture> kind_bars(const std::string& title, const std::vector<KindBar>& bars);

}  // namespace tidemark
