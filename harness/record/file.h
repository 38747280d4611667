// One reader of whole files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tidemark {

/// The bytes of a file, a pipe or a device. Throws std::runtime_error with one line if it cannot be
/// read (`give` says what to give in its place) or has more than `most` bytes.
std::string read_bytes(const std::filesystem::path& file, std::string_view give = "",
                       std::uint64_t most = std::uint64_t{1} << 32);

}  // namespace tidemark
