#include "reports/markup.h"

#include <fmt/format.h>

#include "harness/record/one_line.h"

namespace tidemark {

const char* entity(char c) {
  return c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : nullptr;
}

std::string markup_text(const std::string& text) {
  std::string out;
  for (char c : one_line(text)) {
    const char* known = entity(c);
    known != nullptr ? out += known : out += c;
  }
  return out;
}

std::string breakable(const std::string& text) {
  std::string out;
  const std::string plain = markup_text(text);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    out += plain[i];
    const bool pair = plain[i] == ':' && i > 0 && plain[i - 1] == ':';
    if (pair || plain[i] == '/' || plain[i] == '_') out += "<wbr>";
  }
  return out;
}

std::string percent_encoded(const std::string& text, std::string_view kept) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kept.find(c) != std::string_view::npos;
    plain ? out += c : out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace tidemark
