// The memory over time of two runs of a program on one scale.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/memory/picture.h"
#include "reports/compare/render.h"

namespace tidemark {

/// Data of page/overlay.js. Phases of one name and step lie over each other, each as wide as the
/// longer of the two; what has no phase in common keeps the distance of its events. `id`: of this
/// picture on its page.
Picture overlay(const MemoryPicture& before, const MemoryPicture& after, const std::string& id);

/// Adds the picture to the sections of what the new peaks have beyond the old ones, before their
/// bars, where the folders of both sides have the records.
void add_overlays(std::vector<Section>& sections, const Side& base, const Side& fresh);

/// The folder of a report, or that of its report.json; empty for another file.
std::filesystem::path records_beside(const std::filesystem::path& report);

}  // namespace tidemark
