#include "harness/ranks/flight_recorder.h"

#include <ATen/record_function.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "harness/ranks/flight_record.h"
#include "harness/virtual/device/new_file.h"

namespace tidemark::flight {
namespace {

Record in_memory;
Record* record = &in_memory;  // or the mapped file: written with stores alone, no system call
thread_local int depth = 0;   // of the operators that this thread is in

template <std::size_t size>
void put(std::array<char, size>& to, std::string_view text) {
  const std::size_t n = std::min(text.size(), size - 1);
  std::memcpy(to.data(), text.data(), n);
  to[n] = 0;
}

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  if (depth++ > 0) return nullptr;
  std::string_view name = function.name();
  for (const std::string_view prefix :
       {"autograd::engine::evaluate_function: ", "torch::autograd::CppNode<"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  const auto count = std::atomic_ref(record->operators).fetch_add(1, std::memory_order_relaxed);
  put(record->last_operators[count % kOperators], name);
  return nullptr;
}

void end_operator(const at::RecordFunction&, at::ObserverContext*) { --depth; }

}  // namespace

void open(const std::filesystem::path& session, int rank) {
  static const auto follow = at::addGlobalCallback(
      at::RecordFunctionCallback(begin_operator, end_operator)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  static_cast<void>(follow);
  if (session.empty()) return;
  const int file = create_file(file_of(session, rank).c_str(), O_RDWR, 0600);
  if (file < 0) return;
  if (ftruncate(file, sizeof(Record)) == 0) {
    void* at = mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) record = new (at) Record(in_memory);
  }
  close(file);
}

void place(const std::string& text) {
  put(record->place, text);
  put(record->thrown, "");
  record->inside = 0;  // an exception may have ended the call
}

void threw(const std::string& what) { put(record->thrown, what); }

void enter(const std::string& call) {
  put(record->last[record->calls % kCalls], call);
  std::atomic_ref(record->calls).fetch_add(1, std::memory_order_relaxed);
  record->inside = 1;
}

void leave() { record->inside = 0; }

std::uint64_t beats() {
  const auto count = [](std::uint64_t& one) {
    return std::atomic_ref(one).load(std::memory_order_relaxed);
  };
  return count(record->operators) + count(record->calls);
}

std::string here() { return record->place[0] == 0 ? "" : sentence(*record); }

}  // namespace tidemark::flight
