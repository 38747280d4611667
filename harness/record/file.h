// One reader of whole files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tidemark {

/// The bytes of a file. Throws std::runtime_error with one line if it cannot be read (`give` says
/// what to give in its place), has more than `most` bytes, which is known before they are read, or
/// is no file: a pipe may never end, and a device has no end.
std::string read_bytes(const std::filesystem::path& file, std::string_view give = "",
                       std::uint64_t most = std::uint64_t{1} << 32);

/// The first bytes of a file, at most `most`; empty where there are none, or it is no file.
std::string first_bytes(const std::filesystem::path& file, std::size_t most);

}  // namespace tidemark
