#include "harness/virtual/nccl/message.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tidemark::nccl {
namespace {

// splitmix64's finaliser: https://prng.di.unimi.it/splitmix64.c
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Raised with every change of what is sent within one version: TIDEMARK_VERSION is the project's.
constexpr int message_version = 1;

constexpr Version version_of(std::string_view text) {
  Version version{};
  std::copy_n(text.begin(), std::min(text.size(), version.size() - 2), version.begin());
  version[std::min(text.size(), version.size() - 2)] = '.';
  version[std::min(text.size() + 1, version.size() - 1)] = '0' + message_version;
  return version;
}

}  // namespace

constexpr Version this_version = version_of(TIDEMARK_VERSION);

CommId child_of(const CommId& parent, std::uint64_t number, std::uint64_t color) {
  std::uint64_t word = mix(number ^ mix(color));
  return {mix(parent.high ^ word), mix(parent.low + word)};
}

CommId hash_of(const void* bytes, std::size_t size) {
  CommId id{size, ~size};
  const auto* next = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) {
    id.high = mix(id.high ^ next[i]);
    id.low = mix(id.low + next[i] + i);
  }
  return id;
}

Payload Payload::allocate(std::size_t size) {
  return {std::make_shared_for_overwrite<std::byte[]>(size), size};
}

Payload Payload::copy_of(const void* source, std::size_t size) {
  if (size == 0) return {};
  Payload payload = allocate(size);
  std::memcpy(payload.data.get(), source, size);
  return payload;
}

}  // namespace tidemark::nccl
