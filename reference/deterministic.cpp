#include "reference/deterministic.h"

namespace tidemark::reference {
namespace {

// splitmix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void fill(std::uint64_t seed, const std::string& name, std::int64_t offset,
          std::span<double> values) {
  std::uint64_t key = mix(seed);
  for (const char c : name) key = mix(key ^ static_cast<unsigned char>(c));
  const bool norm = name.find("norm") != std::string::npos;
  const double scale = name.find("fc") != std::string::npos ? 1.0 / 512
                       : norm                               ? 1.0 / 128
                                                            : 1.0 / 64;
  auto index = static_cast<std::uint64_t>(offset);
  for (auto& value : values) {
    const auto step = static_cast<std::int64_t>(mix(key ^ mix(index++)) >> 57) - 64;  // [-64, 63]
    value = (norm ? 1.0 : 0.0) + static_cast<double>(step) * scale;
  }
}

}  // namespace tidemark::reference
