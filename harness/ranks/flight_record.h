// Record of a rank's flight recorder: a file of the run's session, readable whatever became of the
// rank.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>

namespace tidemark::flight {

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

std::filesystem::path file_of(const std::filesystem::path& session, int rank);

/// "in fsdp_prefetch/..., step 2, after all_gather 6 ..., last operators aten::mm, ...".
std::string sentence(const Record& one);

/// The sentences of the recorders of a session, one a rank; empty without any.
std::string read(const std::filesystem::path& session);

}  // namespace tidemark::flight
