#include "harness/virtual/recorder/recorder.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/gathers.h"
#include "harness/virtual/recorder/backward.h"
#include "harness/virtual/recorder/collector.h"
#include "harness/virtual/recorder/modules.h"
#include "harness/virtual/recorder/process_file.h"
#include "harness/virtual/recorder/recording.h"

namespace tidemark::recorder {
namespace {

std::atomic<State*> current{nullptr};  // never deleted: another thread may be in it
std::vector<std::string>
    open_before;  // phases that began before the record did; Python's lock held
thread_local std::string last_error;

void follow_uses() {
  if (operators::device.on_use == nullptr) return;
  operators::device.on_use([](const void* memory, const char* kind) {
    std::string_view(kind) == device::kRead ? note_read(memory)
                                            : tidemark_record_label(memory, kind, "");
  });
}

void in_child() {
  follow(nullptr);
  if (State* state = current.exchange(nullptr)) state->file().leave();
  leave_process_file();
}

}  // namespace

State* recording() { return current; }

void note_gather(const void* output, const void* shard, int64_t shard_bytes) {
  State* state = recording();
  if (state == nullptr) return;
  const std::lock_guard lock(state->mutex);
  state->gather(reinterpret_cast<std::uintptr_t>(output), reinterpret_cast<std::uintptr_t>(shard),
                shard_bytes);
}

namespace {

void settle_used(State& state) {
  for (std::size_t device = 0; device < kDevices; ++device)
    if (state.file().moment().devices[device].used != 0 || state.has_memory(device))
      state.settle(device);
}

void note_use(const void* address, BlockUse use) {
  State* state = recording();
  if (state == nullptr || !state->history) return;
  const std::lock_guard lock(state->mutex);
  state->use(reinterpret_cast<std::uintptr_t>(address), use);
}

}  // namespace

void note_read(const void* address, int place) {
  State* state = recording();
  if (state == nullptr || !state->history) return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(state->mutex);
  state->use(at, BlockUse::read);
  if (Operator::now == nullptr) return;
  if (state->is_of_forward(at)) Operator::now->source = address;
  if (state->is_of_gradient(at)) Operator::now->gradients.push_back({address, place});
}

void note_written(const void* address, int place, bool overwrites) {
  State* state = recording();
  if (state == nullptr || !state->history) return;
  const std::lock_guard lock(state->mutex);
  state->written(reinterpret_cast<std::uintptr_t>(address), place, overwrites);
}

void note_overwritten(const void* address) {
  State* state = recording();
  if (state == nullptr || !state->history) return;
  if (Operator::now == nullptr || Operator::now->source == nullptr) return;
  const std::lock_guard lock(state->mutex);
  state->overwritten(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace tidemark::recorder

using namespace tidemark::recorder;
#define EXPORTED extern "C" [[gnu::visibility("default")]]

EXPORTED int tidemark_record_begin(const char* path, int history) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, in_child); });
  try {
    auto* const state = new State(path, static_cast<History>(history));
    for (const std::string& name : std::exchange(open_before, {})) state->phase(name);
    current = state;
    resume_module();
    begin_process_file(path);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return -1;
  }
}

EXPORTED int tidemark_record_follow() {
  State* state = recording();
  if (state == nullptr) return 0;
  if (following() == state) return 0;
  try {
    follow(state);
    static std::once_flag nodes;
    if (state->history)
      std::call_once(nodes, [] {
        follow_nodes();
        follow_uses();
        tidemark::operators::note_gathers();
      });
    note_use(nullptr, BlockUse::followed);
    return 0;
  } catch (const std::exception& error) {
    last_error = std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
    return -1;
  }
}

EXPORTED const char* tidemark_record_error() { return last_error.c_str(); }

EXPORTED void tidemark_record_end(int ended) {
  State* state = recording();
  if (state == nullptr) return;
  if (ended != 0 && !state->has_ended()) settle_used(*state);
  // Frees of Python when it ends are not the program's doing.
  if (ended != 0)
    follow(nullptr);
  else if (following() == nullptr)
    follow(state);
  state->file().header().ended = ended;
  end_process_file(ended != 0);
}

EXPORTED int tidemark_record_python(const int64_t* layout, size_t count) {
  PythonLayout all{};
  if (count * sizeof *layout != sizeof all) return -1;
  std::memcpy(&all, layout, sizeof all);
  return set_python_layout(all) ? 0 : -1;
}

EXPORTED size_t tidemark_record_stack(char* text, size_t size) {
  std::vector<PythonPlace> places;
  python_places(places);
  std::string all;
  for (const PythonPlace& place : places) {
    const PythonLine line = line_of(place);
    all += line.function + " " + line.file + ":" + std::to_string(line.line) + "\n";
  }
  std::copy_n(all.data(), std::min(size, all.size()), text);
  return all.size();
}

EXPORTED uint32_t tidemark_record_here() {
  State* state = recording();
  if (state == nullptr || !state->history) return 0;
  const std::lock_guard lock(state->mutex);
  return state->stacks().now();
}

EXPORTED void tidemark_record_thread(uint32_t stack) {
  if (State* state = recording()) state->stacks().starts_thread(stack);
}

EXPORTED void tidemark_record_collector(const int* collects, int* count) {
  set_collector(collects, count);
}

EXPORTED void tidemark_record_in_graph(const void* address) {
  note_use(address, BlockUse::in_graph);
}

EXPORTED void tidemark_record_program_ends() {
  State* state = recording();
  if (state == nullptr) return;
  settle_used(*state);
  const std::lock_guard lock(state->mutex);
  state->program_ends();
}

EXPORTED void tidemark_record_setting(const char* name, const char* value) {
  State* state = recording();
  if (state == nullptr || !state->history) return;
  const std::lock_guard lock(state->mutex);
  state->setting(name, value);
}

EXPORTED void tidemark_record_rank(int rank) {
  if (State* state = recording()) state->file().header().rank = rank;
}

EXPORTED void tidemark_record_label(const void* address, const char* kind, const char* name) {
  State* state = recording();
  if (state == nullptr) return;
  const std::lock_guard lock(state->mutex);
  state->label(reinterpret_cast<std::uintptr_t>(address), kind, name);
  state->labelled(reinterpret_cast<std::uintptr_t>(address), kind);
}

EXPORTED void tidemark_record_freed(const char* kind) {
  State* state = recording();
  if (state == nullptr) return;
  const std::lock_guard lock(state->mutex);
  state->name_freed(kind == nullptr ? "" : kind);
}

EXPORTED int tidemark_record_is_labelled(const void* address) {
  State* state = recording();
  if (state == nullptr) return 0;
  const std::lock_guard lock(state->mutex);
  return state->label_at(reinterpret_cast<std::uintptr_t>(address)) != nullptr ? 1 : 0;
}

EXPORTED int64_t tidemark_record_born(const void* address) {
  State* state = recording();
  if (state == nullptr) return 0;
  const std::lock_guard lock(state->mutex);
  return state->born(reinterpret_cast<std::uintptr_t>(address));
}

EXPORTED int64_t tidemark_record_phase(const char* name) {
  State* state = recording();
  if (state == nullptr) {
    open_before.emplace_back(name);
    return 0;
  }
  const std::lock_guard lock(state->mutex);
  return state->phase(name);
}

EXPORTED void tidemark_record_phase_end(const char* name) {
  State* state = recording();
  if (state == nullptr) {
    const auto innermost = std::find(open_before.rbegin(), open_before.rend(), name);
    if (innermost != open_before.rend()) open_before.erase(std::next(innermost).base());
    return;
  }
  const std::lock_guard lock(state->mutex);
  state->phase_end(name);
}

EXPORTED int64_t tidemark_record_allocated() {
  State* state = recording();
  int64_t bytes = 0;
  for (std::size_t device = 0; state != nullptr && device < kDevices; ++device)
    if (state->file().moment().devices[device].used != 0)
      bytes += stats_of(device).allocated_bytes[0].current;
  return bytes;
}

EXPORTED int64_t tidemark_record_stretch(int device) {
  State* state = recording();
  if (state == nullptr || following() != state || device < 0) return 0;
  return state->begin(static_cast<std::size_t>(device));
}

EXPORTED int tidemark_record_stretch_read(int64_t stretch, int64_t* bytes) {
  State* state = recording();
  if (state == nullptr || stretch <= 0) return -1;
  const Stretch read = state->read(stretch);
  static_assert(sizeof read == 12 * sizeof *bytes);
  std::memcpy(bytes, &read, sizeof read);
  return 0;
}

EXPORTED void tidemark_record_stretch_end(int64_t stretch) {
  if (State* state = recording()) state->end(stretch);
}

EXPORTED int64_t tidemark_record_held(int device) {
  State* state = recording();
  return state == nullptr || device < 0 ? 0 : state->live_bytes(static_cast<std::size_t>(device));
}
