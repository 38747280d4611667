// A GPU profile with measured constants: every constant that was measured, and all other figures of
// the shipped profile of that GPU.
#pragma once

#include <string>
#include <vector>

#include "harness/measure/rates/spread.h"

namespace tidemark::rates {

/// Origin of measured figures, for the sources in a profile.
struct Origin {
  std::string kind;     // "measured" on hardware, else "virtual" or "rehearsal": none of hardware
  std::string machine;  // "NVIDIA H200, driver 580.95.05, CUDA 13.0"
  std::string date;     // UTC
};
/// The origin of figures that are measured on the present platform today.
Origin present_origin();

struct Shipped {
  std::string name;  // "h200-141g"
  std::string text;  // of the file
};
/// The profile in TIDEMARK_PROFILES, else in profiles/ of the virtual platform, whose "device" is
/// `gpu` and that was not measured itself ("-measured"). Throws Unavailable (77) if there is none.
Shipped shipped_profile(const std::string& gpu);

/// The profile's text, named "<name>-<kind>". Times in whole ns, the rest with five digits.
std::string calibrated(const Shipped& shipped, const std::vector<Rate>& rates,
                       const Origin& origin);
/// A line a constant: shipped, measured with its quartiles, their ratio; or why it stays.
std::string table(const Shipped& shipped, const std::vector<Rate>& rates);

}  // namespace tidemark::rates
