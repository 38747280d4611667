#include "harness/flight.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <type_traits>

namespace tidemark::flight {
namespace {

constexpr std::size_t kCalls = 4;

struct Record {
  std::array<char, 256> place{};
  std::uint64_t calls = 0;
  std::uint32_t inside = 0;
  std::array<std::array<char, 128>, kCalls> last{};
};
static_assert(std::is_trivially_copyable_v<Record>);

Record* record = nullptr;  // in the mapped file: written with stores alone, no system call

template <std::size_t size>
void put(std::array<char, size>& to, const std::string& text) {
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

}  // namespace

void open(const std::filesystem::path& session, int rank) {
  const int file = ::open(file_of(session, rank).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (ftruncate(file, sizeof(Record)) == 0) {
    void* at = mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) record = new (at) Record;
  }
  close(file);
}

void place(const std::string& text) {
  if (record != nullptr) put(record->place, text);
}

void enter(const std::string& call) {
  if (record == nullptr) return;
  put(record->last[record->calls % kCalls], call);
  ++record->calls;
  record->inside = 1;
}

void leave() {
  if (record != nullptr) record->inside = 0;
}

std::string read(const std::filesystem::path& session) {
  std::string text;
  for (int rank = 0;; ++rank) {
    std::ifstream file(file_of(session, rank), std::ios::binary);
    Record one;
    if (!file.read(reinterpret_cast<char*>(&one), sizeof one)) break;
    text += fmt::format("{}rank {} was in {}", rank ? "; " : "", rank, text_of(one.place));
    if (one.calls == 0) continue;
    const auto call = [&](std::uint64_t back) {
      return text_of(one.last[(one.calls - 1 - back) % kCalls]);
    };
    text += one.inside ? ", waiting in " + call(0) : ", after " + call(0);
    for (std::uint64_t back = 1; back < std::min<std::uint64_t>(one.calls, kCalls); ++back)
      text += (back == 1 ? " (before that " : ", ") + call(back);
    if (one.calls > 1) text += ")";
  }
  return text;
}

}  // namespace tidemark::flight
