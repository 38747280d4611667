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
  std::vector<CurvePoint> points;  // ascending, no step twice
};

struct CurveFile {
  std::string path, format;   // one of curve_formats()
  std::vector<Curve> curves;  // at least one, none empty
};

/// Names of the formats: text, csv, json, jsonl, report, and the logs of trainers.
std::vector<std::string> curve_formats();

/// `format` (one of curve_formats()) empty: by content. `path` may be the output folder of a run.
/// Throws std::runtime_error in one line: file, line, what is wrong.
CurveFile read_curves(const std::filesystem::path& path, const std::string& format = "");
CurveFile parse_curves(std::string_view text, const std::string& where,
                       const std::string& format = "");

/// The curves whose names match the glob; without one those named like a loss where there are such,
/// else all.
std::vector<const Curve*> select(const CurveFile& file, const std::string& glob);

}  // namespace tidemark
