#include "reference/deterministic.h"

#include <cmath>

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
          std::span<double> values, double step) {
  std::uint64_t key = mix(seed);
  for (const char c : name) key = mix(key ^ static_cast<unsigned char>(c));
  const bool norm = name.find("norm") != std::string::npos;
  const double scale = step > 0                               ? step
                       : name.find("fc") != std::string::npos ? 1.0 / 512
                       : norm                                 ? 1.0 / 128
                                                              : 1.0 / 64;
  auto index = static_cast<std::uint64_t>(offset);
  for (auto& value : values) {
    const auto steps = static_cast<std::int64_t>(mix(key ^ mix(index++)) >> 57) - 64;  // [-64, 63]
    value = (norm ? 1.0 : 0.0) + static_cast<double>(steps) * scale;
  }
}

namespace {

/// The binary logarithm of the gain of a product of weights with step 1: of 128 even steps the root
/// of the mean square is 128 / sqrt(12).
double log_of_gain(double terms) { return std::log2(128 * std::sqrt(terms / 12)); }

}  // namespace

double step_of_product(double terms) { return std::exp2(-std::ceil(log_of_gain(terms))); }

double step_in_chain(double terms, std::int64_t layer) {
  const double each = log_of_gain(terms);
  const auto down_to = [&](std::int64_t layers) {
    return std::ceil(static_cast<double>(layers) * each);
  };
  return std::exp2(down_to(layer) - down_to(layer + 1));
}

}  // namespace tidemark::reference
