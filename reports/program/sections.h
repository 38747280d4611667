// Sections of the pages of a program and of a snapshot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/memory/analysis.h"
#include "harness/memory/highest_peak.h"
#include "harness/record/record.h"
#include "reports/html.h"
#include "reports/program/picture_data.h"

namespace tidemark {

/// "Memory over time": the pictures, which page/memory.js draws, and for a browser without scripts
/// the first one with what is alive at the moment that it opens with. None without a picture.
std::optional<Section> memory_section(const std::vector<HighestPeak>& peaks,
                                      const PicturePlace& place);

/// Memory that the program may do without on a device, and its peaks by step and phase, as far as
/// the record has kinds of tensors and phases; and, always the last one, what is left at the end.
std::vector<Section> sections_of(const DeviceSummary& device);

/// "Peaks by rank", a row for all ranks whose figures are equal where there are many ranks; the
/// highest of many rows, and the others folded.
Section peaks_section(const Report& report);

}  // namespace tidemark
