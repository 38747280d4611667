#include "harness/record/file.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace tidemark {

std::string read_bytes(const std::filesystem::path& file, std::string_view give,
                       std::uint64_t most) {
  constexpr std::size_t kPart = 1 << 20;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  while (in && text.size() <= most) {  // not by its size, which a pipe or a device does not have
    const std::size_t before = text.size();
    text.resize(before + kPart);
    in.read(text.data() + before, kPart);
    text.resize(before + static_cast<std::size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad())
    throw std::runtime_error(
        fmt::format("{}: cannot be read{}{}", file.string(), give.empty() ? "" : ": give ", give));
  if (text.size() > most)
    throw std::runtime_error(fmt::format(
        "{}: has more than {} bytes, which is the most that is read", file.string(), most));
  return text;
}

}  // namespace tidemark
