#include "harness/virtual/recorder/collector.h"

#include <sys/types.h>

#include <array>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/recorder/python_symbol.h"

namespace tidemark::recorder {
namespace {

using Thing = void*;  // PyObject*

struct CollectorCalls {
  Thing (*thread)() = nullptr;  // the state that Python has of this one; null: none
  int (*disable)() = nullptr;
  int (*enable)() = nullptr;
  Thing (*tuple)(ssize_t) = nullptr;
  Thing (*list)(ssize_t) = nullptr;
  Thing (*dictionary)() = nullptr;
  void (*let_go)(Thing) = nullptr;
  void (*untrack)(Thing) = nullptr;
  void (*give_back)(Thing) = nullptr;
  Thing (*slice)(Thing, Thing, Thing) = nullptr;
};
CollectorCalls calls;
const int* collects_now = nullptr;
int* new_objects = nullptr;
// Python's lock is held where these change.
int own_depth = 0, count_before = 0;
bool was_enabled = false;

// Since Python 3.10.
bool stops() {
  return calls.enable != nullptr ||
         (look_up(calls.disable, "PyGC_Disable") && look_up(calls.enable, "PyGC_Enable"));
}

// Tuples of one to 19 items, lists and dictionaries.
constexpr std::size_t kTuples = 19, kKinds = kTuples + 2;
Thing made(std::size_t kind) {
  if (kind < kTuples) return calls.tuple(static_cast<ssize_t>(kind) + 1);
  return kind == kTuples ? calls.list(0) : calls.dictionary();
}

// Freed objects of these kinds that Python keeps to use them again. A new object that is one of
// them is not counted.
using Spare = std::array<std::vector<Thing>, kKinds>;
Spare& spare() { return device::immortal<Spare>(); }

// All of them, taken from Python.
void take(Spare& all) {
  for (std::size_t kind = 0; kind < kKinds; ++kind)
    for (;;) {
      const int before = *new_objects;
      Thing object = made(kind);
      if (object == nullptr) break;
      if (*new_objects == before) {
        all[kind].push_back(object);
        continue;
      }
      calls.untrack(object);
      calls.give_back(object);  // Python does not keep it
      break;
    }
}

void drop(Spare& all) {
  for (auto& kind : all) {
    for (Thing object : kind) calls.untrack(object), calls.give_back(object);
    kind.clear();
  }
}

}  // namespace

void set_collector(const int* collects, int* count) {
  collects_now = look_up(calls.thread, "PyGILState_GetThisThreadState") ? collects : nullptr;
  const bool has_calls =
      look_up(calls.tuple, "PyTuple_New") && look_up(calls.list, "PyList_New") &&
      look_up(calls.dictionary, "PyDict_New") && look_up(calls.let_go, "Py_DecRef") &&
      look_up(calls.untrack, "PyObject_GC_UnTrack") &&
      look_up(calls.give_back, "PyObject_GC_Del") && look_up(calls.slice, "PySlice_New");
  new_objects = has_calls ? count : nullptr;
}

bool collects() {
  return collects_now != nullptr && *collects_now != 0 && calls.thread() != nullptr;
}

void begin_own_code() {
  if (own_depth++ > 0) return;
  was_enabled = stops() && calls.disable() != 0;
  if (new_objects == nullptr) return;
  count_before = *new_objects;
  take(spare());
}

void end_own_code() {
  if (--own_depth > 0) return;
  if (new_objects != nullptr) {
    Spare own;
    take(own);
    drop(own);
    for (auto& kind : spare()) {
      for (Thing object : kind) calls.let_go(object);
      kind.clear();
    }
    *new_objects = count_before;
  }
  if (was_enabled) calls.enable();
}

void drop_spare() {
  if (new_objects == nullptr) return;
  const int before = *new_objects;
  Spare all;
  take(all);
  drop(all);
  // Python keeps one of these. To have it is the state that can be reached.
  if (Thing slice = calls.slice(nullptr, nullptr, nullptr)) calls.let_go(slice);
  *new_objects = before;
}

}  // namespace tidemark::recorder
