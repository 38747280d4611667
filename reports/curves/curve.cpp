#include "reports/curves/curve.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/gzip.h"
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

/// How sure it is that a curve is what was trained on: 3 for the usual names, 2 for a loss, 1 for
/// one of a validation, 0 for all else.
int likeness(const Curve& curve) {
  constexpr std::string_view kNames[] = {"loss",
                                         "lm loss",
                                         "lm_loss",
                                         "train_loss",
                                         "train_loss_step",
                                         "train/loss",
                                         "train/loss_step",
                                         "train/lm_loss",
                                         "training_loss",
                                         "training loss",
                                         "loss/train",
                                         "train/samples/train_loss",
                                         "loss_metrics/global_avg_loss"};
  constexpr std::string_view kOthers[] = {"val", "eval", "test", "dev_", "dev/"};
  const std::string name = metric_of(curve.name);
  if (std::ranges::find(kNames, name) != std::end(kNames)) return 3;
  if (name.find("loss") == std::string::npos) return 0;
  return std::ranges::any_of(
             kOthers, [&](std::string_view other) { return name.find(other) != std::string::npos; })
             ? 1
             : 2;
}

/// The files of a folder that hold the curves of a run.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"report.json", "metrics.csv", "trainer_state.json"})
    if (fs::exists(folder / name, error)) return {folder / name};
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().find("tfevents") != std::string::npos)
      out.push_back(entry.path());
  std::ranges::sort(out);  // their names have the time of their begin
  if (out.empty())
    throw std::runtime_error(folder.string() +
                             ": is a folder without report.json, TensorBoard's events, metrics.csv "
                             "and trainer_state.json: give a file with a loss curve");
  return out;
}

/// The bytes of a file, unpacked; only the lines that have ended where it is being written.
std::string bytes_of(const fs::path& file, Points& points) {
  std::string text = read_bytes(file, "a file with a loss curve or the folder of a run", kLargest);
  std::error_code error;
  const auto now = fs::file_size(file, error);
  if (text.starts_with("\x1f\x8b")) {
    auto unpacked = gunzip(text, kLargest + 1);
    if (!unpacked)
      throw std::runtime_error(file.string() + ": is cut short, or is no file of gzip: unpack it");
    if (unpacked->size() > kLargest)
      throw std::runtime_error(
          fmt::format("{}: has more than {} bytes unpacked, which is the most that is read",
                      file.string(), kLargest));
    return std::move(*unpacked);
  }
  if (!error && now > text.size() && !holds_events(text)) {
    points.note("grows", "is being written: what had been written is read");
    if (const auto end = text.rfind('\n'); end != std::string::npos) text.resize(end + 1);
  }
  return text;
}

const CurveFormat& add_curves(std::string_view text, const std::string& format, Points& points) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  const std::string_view first = first_line(text);
  const auto chosen = std::ranges::find_if(curve_format_table(), [&](const CurveFormat& each) {
    return format.empty() ? each.fits(text, first) : each.name == format;
  });
  if (text.find('\0') != std::string_view::npos && !holds_events(text))
    points.fail("", "is neither text nor a file of TensorBoard's events");
  chosen->read(text, points);
  return *chosen;
}

CurveFile taken(const std::string& where, const CurveFormat& format, Points& points) {
  std::vector<Curve> curves = points.take();
  return {where, format.name, std::move(curves), points.notes()};
}

}  // namespace

std::vector<std::string> curve_formats() {
  std::vector<std::string> all;
  for (const CurveFormat& format : curve_format_table()) all.emplace_back(format.name);
  return all;
}

CurveFile parse_curves(std::string_view text, const std::string& where, const std::string& format) {
  Points points(where);
  const CurveFormat& chosen = add_curves(text, format, points);
  return taken(where, chosen, points);
}

CurveFile read_curves(const fs::path& path, const std::string& format) {
  std::error_code error;
  const auto files = fs::is_directory(path, error) ? files_of(path) : std::vector<fs::path>{path};
  Points points(files.front().string());
  const CurveFormat* chosen = nullptr;
  for (const fs::path& file : files) {
    points.in(file.string());
    if (files.size() > 1 && fs::file_size(file, error) == 0) continue;  // of a run that has begun
    chosen = &add_curves(bytes_of(file, points), format, points);
  }
  if (chosen == nullptr) points.fail("", "holds no point of a curve");
  return taken(files.size() > 1 ? path.string() : files.front().string(), *chosen, points);
}

std::vector<const Curve*> select(const CurveFile& file, const std::string& glob) {
  int most = 0;
  for (const Curve& curve : file.curves) most = std::max(most, likeness(curve));
  std::vector<const Curve*> out;
  for (const Curve& curve : file.curves)
    if (glob.empty() ? likeness(curve) == most
                     : curve.name == glob || fnmatch(glob.c_str(), curve.name.c_str(), 0) == 0)
      out.push_back(&curve);
  return out;
}

}  // namespace tidemark
