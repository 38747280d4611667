#include "harness/measure/rates/calibrated.h"

#include <cuda_runtime_api.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "harness/device/libraries.h"
#include "harness/device/nvml.h"
#include "harness/device/platforms.h"
#include "harness/errors.h"
#include "harness/record/file.h"

namespace tidemark::rates {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json parsed(const std::string& text, const std::string& where) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("name") || !json.contains("device"))
    throw std::runtime_error(where + ": is not a GPU profile");
  return json;
}

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

bool is_time(const Rate& rate) { return rate.name.ends_with("_ns"); }

Json number(const Rate& rate, double value) {
  if (is_time(rate)) return static_cast<std::int64_t>(std::llround(value));
  const double rounded = std::stod(fmt::format("{:.5g}", value));
  if (rounded == std::floor(rounded) && rounded < 1e15) return static_cast<std::int64_t>(rounded);
  return rounded;
}

std::string source(const Rate& rate, const Origin& origin) {
  const Spread& spread = *rate.measured;
  return fmt::format("{}: median of {}, quartiles {} to {}: {} (tidemark gpu rates, {}, {})",
                     origin.kind, spread.samples, number(rate, spread.low).dump(),
                     number(rate, spread.high).dump(), rate.how, origin.machine, origin.date);
}

/// The profile as text in the layout of the shipped profiles: one line for each figure.
std::string laid_out(const Json& profile) {
  std::string text = "{";
  const char* next = "\n";
  for (const auto& [key, value] : profile.items()) {
    text += fmt::format("{}  {}: ", std::exchange(next, ",\n"), Json(key).dump());
    if (!value.is_object()) {
      text += value.dump();
      continue;
    }
    text += "{";
    const char* line = "\n";
    for (const auto& [name, figure] : value.items())
      text += fmt::format("{}    {}: {{\"value\": {}, \"source\": {}}}", std::exchange(line, ",\n"),
                          Json(name).dump(), figure.at("value").dump(), figure.at("source").dump());
    text += "\n  }";
  }
  return text + "\n}\n";
}

fs::path profiles_folder() {
  if (const char* said = std::getenv("TIDEMARK_PROFILES")) return said;
  return virtual_folder() / "profiles";
}

}  // namespace

Origin present_origin() {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  Origin origin;
  const std::string profile = platform().profile();
  const bool rehearsal = profile.starts_with("rehearsal");
  origin.kind = virtual_device() != nullptr ? "virtual" : rehearsal ? "rehearsal" : "measured";
  if (origin.kind == "measured") {
    const std::string of_driver = driver_version();
    origin.machine = fmt::format("{}, driver {}, CUDA {}", profile,
                                 of_driver.empty() ? "for CUDA " + version(driver) : of_driver,
                                 version(runtime));
  } else {
    origin.machine =
        fmt::format("{}{}: no figure of hardware", rehearsal ? "" : "the virtual device ", profile);
  }
  origin.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  return origin;
}

Shipped shipped_profile(const std::string& gpu) {
  const fs::path folder = profiles_folder();
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::ranges::sort(files);
  std::string known;
  for (const auto& file : files) {
    Shipped shipped{"", read_bytes(file)};
    const Json json = parsed(shipped.text, file.string());
    shipped.name = json["name"].get<std::string>();
    if (shipped.name.ends_with("-measured")) continue;
    if (json["device"] == gpu) return shipped;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", json["device"].get<std::string>());
  }
  throw Unavailable(fmt::format("no profile is of this GPU, '{}', so there is none to put what is "
                                "measured into (in {} are: {})",
                                gpu, folder.string(), known.empty() ? "none" : known),
                    77);
}

std::string calibrated(const Shipped& shipped, const std::vector<Rate>& rates,
                       const Origin& origin) {
  Json profile = parsed(shipped.text, shipped.name);
  profile["name"] = shipped.name + "-" + origin.kind;
  for (const Rate& rate : rates)
    if (rate.measured)
      profile.at(rate.group).at(rate.name) = {{"value", number(rate, rate.measured->median)},
                                              {"source", source(rate, origin)}};
  return laid_out(profile);
}

std::string table(const Shipped& shipped, const std::vector<Rate>& rates) {
  const Json profile = parsed(shipped.text, shipped.name);
  std::string text = fmt::format("{:<28}{:>12}{:>12}  {:<24}{:>8}\n", "constant", shipped.name,
                                 "here", "quartiles", "ratio");
  for (const Rate& rate : rates) {
    const auto was = profile.at(rate.group).at(rate.name).at("value").get<double>();
    text += fmt::format("{:<28}{:>12}", rate.group + "." + rate.name, fmt::format("{:.6g}", was));
    if (!rate.measured) {
      text += fmt::format("{:>12}  {}\n", "stays", rate.how);
      continue;
    }
    const Spread& here = *rate.measured;
    text += fmt::format(
        "{:>12}  {:<24}{:>8.3f}\n", number(rate, here.median).dump(),
        fmt::format("{} to {}", number(rate, here.low).dump(), number(rate, here.high).dump()),
        here.median / was);
  }
  return text;
}

}  // namespace tidemark::rates
