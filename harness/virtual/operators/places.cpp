#include "harness/virtual/operators/places.h"

#include <torch/csrc/autograd/function.h>

#include <atomic>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/operators/layer.h"

namespace tidemark::operators {
namespace {

std::atomic<int (*)()> place_of_call{nullptr};

struct PlaceNames {
  std::mutex mutex;
  std::vector<std::string> places;
  std::unordered_set<std::string> kept;
};
PlaceNames& place_names() { return device::immortal<PlaceNames>(); }

const char* keep(PlaceNames& names, std::string name) {
  return names.kept.insert(std::move(name)).first->c_str();
}

}  // namespace

const char* with_place(const std::string& name) {
  auto* const ask = place_of_call.load();
  if (ask == nullptr) return name.c_str();
  PlaceNames& names = place_names();
  if (const auto node = torch::autograd::get_current_node()) {
    const std::lock_guard lock(names.mutex);
    return keep(names, name + " in " + node->name());
  }
  const int number = ask();  // may name a new line
  const std::lock_guard lock(names.mutex);
  if (number < 0 || static_cast<std::size_t>(number) >= names.places.size()) return name.c_str();
  return keep(names, name + " at " + names.places[static_cast<std::size_t>(number)]);
}

}  // namespace tidemark::operators

extern "C" [[gnu::visibility("default")]] void tidemark_layer_on_place(int (*place)()) {
  tidemark::operators::place_of_call = place;
}

extern "C" [[gnu::visibility("default")]] void tidemark_layer_place_name(int number,
                                                                         const char* name) {
  auto& names = tidemark::operators::place_names();
  const std::lock_guard lock(names.mutex);
  if (number == static_cast<int>(names.places.size())) names.places.emplace_back(name);
}
