#include "harness/virtual/device/modelled.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/refusal.h"

namespace tidemark::device {
namespace {

struct Largest {
  std::mutex mutex;
  std::map<std::string, std::size_t> of;
};

}  // namespace

std::size_t modelled(const char* library, std::size_t bytes, const std::string& scope) {
  say_once(std::string(library) + "'s workspaces are modelled" + (scope.empty() ? "" : " (") +
           scope + (scope.empty() ? "" : ")") +
           ", so peaks that contain them are estimates (harness/virtual/README.md, \"" + library +
           "\")");
  auto& largest = immortal<Largest>();
  const std::lock_guard lock(largest.mutex);
  std::size_t& mine = largest.of[library];
  mine = std::max(mine, bytes);
  return bytes;
}

bool is_hopper() {
  int major = 0;
  attribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  return major == 9;
}

}  // namespace tidemark::device

std::size_t tidemark_modelled(const char* library) {
  auto& largest = tidemark::device::immortal<tidemark::device::Largest>();
  const std::lock_guard lock(largest.mutex);
  const auto bytes = largest.of.find(library);
  return bytes == largest.of.end() ? 0 : bytes->second;
}
