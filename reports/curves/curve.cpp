#include "reports/curves/curve.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/json.h"
#include "reports/curves/formats.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 30;

std::vector<Curve> of_report(const Report& report, const std::string& where) {
  std::vector<Curve> out;
  std::map<std::string, int> taken;
  bool any = false;
  for (const TrialRecord& trial : report.trials) {
    for (const VariantRecord& variant : trial.variants) {
      Curve curve{trial.name() + "/" + variant.name, {}};
      any = any || !variant.loss.empty();
      for (const LossPoint& point : variant.loss)
        if (point.value) curve.points.push_back({point.step, *point.value});
      if (curve.points.empty()) continue;
      if (const int before = taken[curve.name]++; before > 0)
        curve.name += fmt::format(" ({})", before + 1);
      out.push_back(std::move(curve));
    }
  }
  if (out.empty())
    throw std::runtime_error(
        fmt::format("{}: {}", where,
                    any ? "has no losses, because it ran in mode shapes alone: run with --mode math"
                        : "has no losses"));
  return out;
}

std::string first_line(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const auto from = line.find_first_not_of(" \t\r");
    if (from != std::string_view::npos && line[from] != '#') return std::string(line.substr(from));
    at = end + 1;
  }
  return "";
}

/// A line that is an object of its own, with more after it, is the first of many.
bool lines_of_objects(std::string_view text, const std::string& line) {
  if (text.size() <= text.find(line) + line.size() + 1) return false;
  return nlohmann::json::accept(with_quoted_numbers(line)) && line.starts_with('{');
}

std::string guess(std::string_view text) {
  const std::string line = first_line(text);
  if (line.empty()) return "text";
  if (line.front() == '{' || line.front() == '[') {
    if (lines_of_objects(text, line)) return "jsonl";
    return text.substr(0, 4096).find("\"tidemark/report\"") != std::string_view::npos ? "report"
                                                                                      : "json";
  }
  // A tab parts words like any white space, but in a header, whose names may hold spaces.
  const bool header = std::string_view("+-.0123456789").find(line[0]) == std::string_view::npos;
  return line.find_first_of(header ? ",;\t" : ",;") != std::string::npos ? "csv" : "text";
}

bool named_like_a_loss(const Curve& curve) {
  constexpr const char* kNames[] = {"loss",       "lm loss",    "lm_loss",      "train_loss",
                                    "train/loss", "Train/loss", "training_loss"};
  return std::ranges::find(kNames, curve.name) != std::end(kNames);
}

}  // namespace

CurveFile parse_curves(std::string_view text, const std::string& where, const std::string& format) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  if (text.find('\0') != std::string_view::npos)
    throw std::runtime_error(where + ": is not text: give text, CSV, JSON or JSON lines");
  CurveFile out{where, format.empty() ? guess(text) : format, {}};
  if (out.format == "report") {
    out.curves = of_report(parse_report(text, where), where);
  } else if (out.format == "jsonl") {
    out.curves = read_json_lines(text, where);
  } else if (out.format == "json" || out.format == "megatron") {
    out.curves = read_json_value(text, where, out.format);
  } else {
    out.curves = read_table(text, where, out.format == "csv");
  }
  return out;
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
