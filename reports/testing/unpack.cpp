#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/gzip.h"
#include "reports/testing/sample.h"

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

nlohmann::ordered_json unpacked_page_data(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const auto begin = page.find(mark);
  if (begin == std::string::npos) throw std::runtime_error("the page has no data");
  const auto from = begin + mark.size();
  return nlohmann::ordered_json::parse(
      gunzip(from_base64(page.substr(from, page.find('<', from) - from))).value());
}

}  // namespace tidemark
