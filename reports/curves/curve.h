// Loss curves of any training, from the usual file formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

struct CurvePoint {
  std::int64_t step = 0;
  double value = 0;
};

struct Curve {
  std::string name;
  std::vector<CurvePoint> points;        // ascending, no step twice
  std::vector<std::int64_t> twice = {};  // steps that the file has more than once: the last counts
  bool falls = false;                    // the file has steps in another order
};

struct CurveFile {
  std::string path, format;   // one of curve_formats()
  std::vector<Curve> curves;  // at least one, none empty
  std::vector<std::string> notes =
      {};  // what is left out of it, and what is not as it stands there
};

/// Names of the formats: tensorboard, report, those of log_patterns(), jsonl, json, csv, text.
std::vector<std::string> curve_formats();

/// `format` (one of curve_formats()) empty: by content. `path` may be packed by gzip, or the folder
/// of a run: tidemark's, one with TensorBoard's files, with Lightning's metrics.csv, or with
/// trainer_state.json. A file that is being written is read as far as it is there. Throws
/// std::runtime_error in one line: file, line, what is wrong.
CurveFile read_curves(const std::filesystem::path& path, const std::string& format = "");
CurveFile parse_curves(std::string_view text, const std::string& where,
                       const std::string& format = "");

/// The curves whose names match the glob; without one those named like the loss of training where
/// there are such, else those of any loss but a validation's, else of any loss, else all.
std::vector<const Curve*> select(const CurveFile& file, const std::string& glob);

}  // namespace tidemark
