#include "reports/testing/unpack.h"

#include <zlib.h>

#include <stdexcept>

namespace tidemark {
namespace {

std::string from_base64(const std::string& text) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned group = 0;
  int bits = 0;
  for (char c : text) {
    if (c == '=') break;
    const auto digit = kDigits.find(c);
    if (digit == std::string::npos) throw std::runtime_error("not base64");
    group = (group << 6 | static_cast<unsigned>(digit)) & 0xffffffu;
    bits += 6;
    if (bits >= 8) out += static_cast<char>(group >> (bits -= 8) & 255u);
  }
  return out;
}

}  // namespace

std::string gunzip(std::string packed) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::runtime_error("zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out, part(1 << 20, '\0');
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(part, 0, part.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("not gzip, or cut off");
  return out;
}

nlohmann::ordered_json unpacked_page_data(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const auto begin = page.find(mark);
  if (begin == std::string::npos) throw std::runtime_error("the page has no data");
  const auto from = begin + mark.size();
  return nlohmann::ordered_json::parse(
      gunzip(from_base64(page.substr(from, page.find('<', from) - from))));
}

}  // namespace tidemark
