#include "harness/measure/scenario_record.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <system_error>

#include "harness/device/layer.h"
#include "harness/device/platform.h"
#include "harness/device/workspaces.h"
#include "harness/record/words.h"

namespace tidemark {
namespace {

std::atomic<MemoryKind> category_now{MemoryKind::activations};
std::mutex unit_lock;
std::string unit_now;

ScenarioRecord* current_record() { return dynamic_cast<ScenarioRecord*>(recorder::following()); }

std::uint64_t place_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uint64_t>(tensor.storage().data());
}

// A file in memory: no other process has a use for it, and no folder can be full.
int new_file() {
  const int file = memfd_create("tidemark-record", MFD_CLOEXEC);
  if (file < 0) throw std::system_error(errno, std::generic_category(), "a record in memory");
  return file;
}

}  // namespace

MemoryKind current_category() { return category_now; }
void set_current_category(MemoryKind kind) { category_now = kind; }
std::string current_unit() {
  const std::lock_guard lock(unit_lock);
  return unit_now;
}
void set_current_unit(const std::string& unit) {
  const std::lock_guard lock(unit_lock);
  unit_now = unit;
}

void change_category(const at::Tensor& tensor, MemoryKind kind) {
  ScenarioRecord* record = current_record();
  if (record == nullptr) return;
  record->settle_now();
  const std::lock_guard lock(record->mutex);
  const auto* known = record->label_at(place_of(tensor));
  record->label(place_of(tensor), name_of(kind),
                known == nullptr ? "" : std::string(known->second));
}

void on_returned(const at::Tensor& tensor) {
  ScenarioRecord* record = current_record();
  if (record == nullptr) return;
  const std::lock_guard lock(record->mutex);
  const auto* known = record->label_at(place_of(tensor));
  if (known == nullptr || !known->second.empty()) return;
  record->label(
      place_of(tensor), std::string(known->first),
      fmt::format("{}[{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", ")));
}

ScenarioRecord::ScenarioRecord(int device, bool all)
    : Writer(new_file(), all ? recorder::History::all : recorder::History::bounded,
             platform().now()),
      device_(device) {
  if (recorder::stats_of(static_cast<std::size_t>(device)).reserved_bytes[0].current != 0)
    throw std::logic_error("a scenario's record begins when memory is reserved already");
  file().header().pid = 0;  // the same run has the same record
  begin_step(0);
  recorder::follow(this);
}

ScenarioRecord::~ScenarioRecord() { recorder::follow(nullptr); }

std::int64_t ScenarioRecord::now_ns() { return platform().now(); }

recorder::Writer::Place ScenarioRecord::place_now() {
  const std::string op = layer::current();
  return {op.empty() ? 0 : names().stack(0, op, "operator", 0), names().string(current_unit()), 0};
}

void ScenarioRecord::on_allocated(std::uint64_t address) {
  label(address, name_of(category_now.load()), "");
}

// Numbers in the order of their use: handles are other addresses in each process.
recorder::Writer::Stream ScenarioRecord::stream_of(void* stream) {
  return {stream == nullptr ? 0 : ++streams_, platform().stream_name(stream)};
}

void ScenarioRecord::step(int number, bool last) {
  settle_now();
  name_workspaces();
  const std::lock_guard lock(mutex);
  begin_step(number, last);
}

void ScenarioRecord::phase(const std::string& name) {
  const std::lock_guard lock(mutex);
  enter(name);
}

void ScenarioRecord::phase_end(const std::string& name) {
  const std::lock_guard lock(mutex);
  leave(name);
}

// Workspaces of cuBLAS are made by PyTorch inside whichever operator multiplies first; their owner
// knows their addresses.
void ScenarioRecord::name_workspaces() {
  for (auto* all : {&at::cuda::cublas_handle_stream_to_workspace(),
                    &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::shared_lock owners(all->mutex);
    const std::lock_guard lock(mutex);
    for (const auto& [key, memory] : all->map)
      if (const auto at = reinterpret_cast<std::uint64_t>(memory.get()); label_at(at) != nullptr)
        label(at, name_of(MemoryKind::workspaces), std::string(label_at(at)->second));
  }
}

std::string ScenarioRecord::bytes() {
  settle_now();
  name_workspaces();
  const std::lock_guard lock(mutex);
  std::string out = file().committed();
  if (out.empty()) throw std::runtime_error("a record in memory cannot be read");
  return out;
}

}  // namespace tidemark
