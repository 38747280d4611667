// Steps of a log whose lines have none, from the progress bar between them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tidemark {

/// The steps of the lines with a loss, which `has_loss` tells; what they log begins with `mark`.
/// tqdm takes its bar away before a line is written, and draws it anew behind it, with the steps
/// that have ended by then (tqdm.external_write_mode; Hugging Face's Trainer counts a step before
/// it logs it). So a line has the step of the first bar behind it. The last line may have none,
/// and is left out. Empty where a line before it has none, or two neighbours have one step: the
/// bars are then of something else, or reached the file apart from the lines.
std::vector<std::int64_t> steps_of_bars(std::string_view text, std::string_view mark,
                                        const std::function<bool(std::string_view line)>& has_loss);

}  // namespace tidemark
