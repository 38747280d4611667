#include "harness/record/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>

namespace tidemark {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void started(int result) {
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (result != Z_OK) throw std::runtime_error("zlib cannot start: its version is another");
}

}  // namespace

std::string gzip(const std::string& bytes) {
  return gzip([&](const Put& put) { put(bytes); });
}

std::string gzip(const TextMaker& text) {
  z_stream stream{};
  constexpr int kWithGzipHeader = 15 + 16;  // a header without name and time
  started(deflateInit2(&stream, 6, Z_DEFLATED, kWithGzipHeader, 8, Z_DEFAULT_STRATEGY));
  const auto end = [](z_stream* of) { deflateEnd(of); };
  const std::unique_ptr<z_stream, decltype(end)> ends(&stream, end);
  std::string out, part(1 << 16, '\0');
  const auto add = [&](std::string_view bytes, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    int result = Z_OK;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(part.data());
      stream.avail_out = static_cast<uInt>(part.size());
      result = deflate(&stream, flush);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        throw std::runtime_error("zlib cannot compress");
      out.append(part, 0, part.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  text([&](std::string_view bytes) {
    constexpr std::size_t kMost = 1 << 30;  // zlib counts 32 bits
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMost)))
      add(bytes.substr(0, kMost), Z_NO_FLUSH);
  });
  add("", Z_FINISH);
  return out;
}

namespace {

/// What a gzip file says at its end of its size, where it can be: no file is packed further.
std::size_t said_size(std::string_view packed) {
  constexpr std::size_t kSize = 4, kFurthest = 1032;
  if (packed.size() < kSize) return 0;
  std::uint32_t size = 0;
  std::memcpy(&size, packed.data() + packed.size() - kSize, kSize);
  return std::min<std::size_t>(size, packed.size() * kFurthest);
}

}  // namespace

std::optional<std::string> gunzip(std::string_view packed, std::size_t most) {
  z_stream stream{};
  started(inflateInit2(&stream, 15 + 16));
  const auto end = [](z_stream* of) { inflateEnd(of); };
  const std::unique_ptr<z_stream, decltype(end)> ends(&stream, end);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out, part(1 << 20, '\0');
  out.reserve(std::min(said_size(packed), most));
  int result = Z_OK;
  while (result == Z_OK && out.size() <= most) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    out.append(part, 0, part.size() - stream.avail_out);
  }
  if (result != Z_STREAM_END && out.size() <= most) return std::nullopt;
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[group >> (18 - 6 * k) & 63u] : '=';
  }
  return out;
}

std::string packed_bytes(const std::string& bytes) { return base64(gzip(bytes)); }

std::optional<std::string> unpacked_bytes(std::string_view text) {
  std::string bytes;
  std::uint32_t group = 0;
  int bits = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == kDigits.npos) return std::nullopt;
    group = group << 6U | static_cast<std::uint32_t>(digit);
    if ((bits += 6) < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> static_cast<unsigned>(bits) & 0xFFU);
  }
  return gunzip(bytes);
}

}  // namespace tidemark
