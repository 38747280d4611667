#include "reports/curves/curve.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "harness/record/file.h"
#include "reports/curves/formats.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 30;

std::string_view first_line(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const auto from = line.find_first_not_of(" \t\r");
    if (from != std::string_view::npos && line[from] != '#') return line.substr(from);
    at = end + 1;
  }
  return "";
}

// W&B exports a column as "run - metric".
bool named_like_a_loss(const Curve& curve) {
  constexpr const char* kNames[] = {"loss",       "lm loss",    "lm_loss",      "train_loss",
                                    "train/loss", "Train/loss", "training_loss"};
  const auto dash = curve.name.rfind(" - ");
  const std::string metric = dash == std::string::npos ? curve.name : curve.name.substr(dash + 3);
  return std::ranges::find(kNames, metric) != std::end(kNames);
}

}  // namespace

std::vector<std::string> curve_formats() {
  std::vector<std::string> all;
  for (const CurveFormat& format : curve_format_table()) all.emplace_back(format.name);
  return all;
}

CurveFile parse_curves(std::string_view text, const std::string& where, const std::string& format) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  const std::string_view first = first_line(text);
  const auto chosen = std::ranges::find_if(curve_format_table(), [&](const CurveFormat& each) {
    return format.empty() ? each.fits(text, first) : each.name == format;
  });
  if (text.find('\0') != std::string_view::npos && !holds_events(text))
    throw std::runtime_error(where + ": is neither text nor a file of TensorBoard's events");
  Points points(where);
  chosen->read(text, points);
  return {where, chosen->name, points.take()};
}

CurveFile read_curves(const fs::path& path, const std::string& format) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / "report.json" : path;
  const char* give = "a file with a loss curve or the folder of a run";
  return parse_curves(read_bytes(file, give, kLargest), file.string(), format);
}

std::vector<const Curve*> select(const CurveFile& file, const std::string& glob) {
  std::vector<const Curve*> out;
  for (const Curve& curve : file.curves)
    if (glob.empty() ? named_like_a_loss(curve)
                     : curve.name == glob || fnmatch(glob.c_str(), curve.name.c_str(), 0) == 0)
      out.push_back(&curve);
  if (out.empty() && glob.empty())
    for (const Curve& curve : file.curves) out.push_back(&curve);
  return out;
}

}  // namespace tidemark
