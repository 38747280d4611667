#include "harness/virtual/recorder/modules.h"

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/recorder/backward.h"
#include "harness/virtual/recorder/recording.h"

namespace tidemark::recorder {
namespace {

// A path, and its number in the record that has asked for it last.
struct Path {
  const State* record = nullptr;
  Number number = 0;
};
using Paths = std::unordered_map<std::string, Path>;

Paths& paths() { return device::immortal<Paths>(); }
std::unordered_map<const void*, Paths::value_type*>& modules() {
  return device::immortal<std::unordered_map<const void*, Paths::value_type*>>();
}
thread_local std::vector<Paths::value_type*> running;  // the innermost last

Paths::value_type* path_of(std::string_view text) {
  return &*paths().try_emplace(std::string(text)).first;
}

void tell() {
  State* state = recording();
  if (running.empty() || state == nullptr || !state->history) return set_module_now(0);
  auto& [text, path] = *running.back();
  if (path.record != state) {
    const std::lock_guard lock(state->mutex);
    path = {state, state->names().string(text)};
  }
  set_module_now(path.number);
}

}  // namespace

void name_module(const void* module, std::string_view path) { modules()[module] = path_of(path); }

void forget_module(const void* module) { modules().erase(module); }

bool enter_module(const void* module) {
  const auto known = modules().find(module);
  if (known == modules().end()) return false;
  running.push_back(known->second);
  tell();
  return true;
}

void enter_module(std::string_view path) {
  running.push_back(path_of(path));
  tell();
}

void leave_module() {
  if (!running.empty()) running.pop_back();
  tell();
}

std::size_t modules_that_run() { return running.size(); }

void resume_module() { tell(); }

}  // namespace tidemark::recorder
