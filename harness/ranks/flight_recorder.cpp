#include "harness/ranks/flight_recorder.h"

#include <ATen/record_function.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>
#include <type_traits>

namespace tidemark::flight {
namespace {

constexpr std::size_t kCalls = 4, kOperators = 5;

struct Record {
  std::array<char, 256> place{}, thrown{};
  std::uint64_t calls = 0;
  std::uint32_t inside = 0;
  std::array<std::array<char, 128>, kCalls> last{};
  std::uint64_t operators = 0;
  std::array<std::array<char, 64>, kOperators> last_operators{};
};
static_assert(std::is_trivially_copyable_v<Record>);

Record in_memory;
Record* record = &in_memory;  // or the mapped file: written with stores alone, no system call
thread_local int depth = 0;   // of the operators that this thread is in

template <std::size_t size>
void put(std::array<char, size>& to, std::string_view text) {
  const std::size_t n = std::min(text.size(), size - 1);
  std::memcpy(to.data(), text.data(), n);
  to[n] = 0;
}

template <std::size_t size>
std::string text_of(const std::array<char, size>& from) {
  return {from.data(), strnlen(from.data(), size)};
}

std::filesystem::path file_of(const std::filesystem::path& session, int rank) {
  return session / fmt::format("rank-{}", rank);
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

/// The last ones, the latest first, from the second on where `back` is 1.
template <class Names>
std::string list(const Names& names, std::uint64_t count, std::uint64_t back = 0) {
  std::string text;
  for (; back < std::min<std::uint64_t>(count, names.size()); ++back)
    text += (text.empty() ? "" : ", ") + text_of(names[(count - 1 - back) % names.size()]);
  return text;
}

std::string sentence(const Record& one) {
  std::string text = "in " + text_of(one.place);
  if (one.calls > 0) {
    text += one.inside ? ", waiting in " : ", after ";
    text += text_of(one.last[(one.calls - 1) % kCalls]);
    if (one.calls > 1) text += " (before that " + list(one.last, one.calls, 1) + ")";
  }
  if (one.operators > 0) text += ", last operators " + list(one.last_operators, one.operators);
  if (one.thrown[0] != 0) text += ", where it threw: " + text_of(one.thrown);
  return text;
}

}  // namespace

void open(const std::filesystem::path& session, int rank) {
  static const auto follow = at::addGlobalCallback(
      at::RecordFunctionCallback(begin_operator, end_operator)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  static_cast<void>(follow);
  if (session.empty()) return;
  const int file = ::open(file_of(session, rank).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
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

std::string read(const std::filesystem::path& session) {
  std::string text;
  for (int rank = 0;; ++rank) {
    std::ifstream file(file_of(session, rank), std::ios::binary);
    Record one;
    if (!file.read(reinterpret_cast<char*>(&one), sizeof one)) break;
    text += fmt::format("{}rank {} was {}", rank ? "; " : "", rank, sentence(one));
  }
  return text;
}

}  // namespace tidemark::flight
