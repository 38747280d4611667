#include "harness/record/json_document.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "harness/virtual/device/nesting.h"

namespace tidemark {
namespace {

constexpr std::size_t kLargest = (std::size_t{1} << 31) - 1;

/// nlohmann's grammar, without what it makes.
class Checker : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_object() override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception& why) override {
    constexpr int kNumber = 406;
    byte = at, number = why.id == kNumber;
    return false;
  }
  std::size_t byte = 0;
  bool number = false;
};

void check(std::string_view text) {
  using Fault = NotJson::Fault;
  if (is_too_deep(text)) throw NotJson(Fault::deep, 0);
  Checker checker;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &checker))
    throw NotJson(checker.number               ? Fault::number
                  : checker.byte > text.size() ? Fault::cut_off
                                               : Fault::syntax,
                  checker.byte);
}

/// The place behind a text that begins there.
std::size_t behind_text(std::string_view text, std::size_t at) {
  for (++at; text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return at + 1;
}

std::size_t behind_word(std::string_view text, std::size_t at) {
  return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
}

/// The number that \uXXXX has at `at`.
std::uint32_t unit(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  std::from_chars(text.data() + at, text.data() + at + 4, value, 16);
  return value;
}

void add_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) return put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
  if (code < 0x10000) {
    put(0xe0 | code >> 12);
  } else {
    put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f));
  }
  put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
}

/// Between its quotes; the text is right (check).
std::string unescaped(std::string_view quoted) {
  std::string out;
  out.reserve(quoted.size());
  for (std::size_t at = 0; at < quoted.size(); ++at) {
    if (quoted[at] != '\\') {
      out += quoted[at];
      continue;
    }
    const char c = quoted[++at];
    if (c == 'u') {
      std::uint32_t code = unit(quoted, at + 1);
      at += 4;
      if (code >= 0xd800 && code < 0xdc00) {  // with the other half of a pair behind it
        code = 0x10000 + ((code - 0xd800) << 10) + (unit(quoted, at + 3) - 0xdc00);
        at += 6;
      }
      add_utf8(out, code);
      continue;
    }
    constexpr std::string_view kLetters = "bfnrt", kMeant = "\b\f\n\r\t";
    const auto known = kLetters.find(c);
    out += known == std::string_view::npos ? c : kMeant[known];
  }
  return out;
}

std::string_view between_quotes(std::string_view text, std::size_t at) {
  return text.substr(at + 1, behind_text(text, at) - at - 2);
}

}  // namespace

NotJson::NotJson(Fault of, std::size_t at)
    : std::runtime_error(
          of == Fault::deep ? kTooDeep
          : of == Fault::number
              ? std::string("contains a number outside the range of a double")
              : fmt::format("not JSON {} byte {}", of == Fault::cut_off ? "after" : "at", at)),
      fault(of),
      byte(at) {}

JsonDocument::JsonDocument(std::string_view text) : text_(text) {
  if (text.size() > kLargest) throw NotJson(NotJson::Fault::cut_off, kLargest);
  check(text);
  if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // a byte order mark
  text_ = text_.substr(0, text_.find('\0'));                      // which ends it, for nlohmann
  std::vector<Ref> waiting;                                       // for the end of their lists
  struct Open {
    std::size_t first, begin;
  };
  std::vector<Open> open;
  for (std::size_t at = 0; at < text_.size();) {
    const char c = text_[at];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':') {
      ++at;
    } else if (c == '[' || c == '{') {
      open.push_back({waiting.size(), at++});
    } else if (c == ']' || c == '}') {
      const auto [first, begin] = open.back();
      open.pop_back();
      const auto from = waiting.begin() + static_cast<std::ptrdiff_t>(first);
      const bool sparse =
          c == ']' && waiting.size() - first > kSparse &&
          std::none_of(from, waiting.end(), [](Ref item) { return (item & kList) != 0; });
      List list{static_cast<std::uint32_t>(refs_.size())};
      list.count = static_cast<std::uint32_t>(waiting.size() - first) & (kList - 1);
      list.sparse = sparse;
      lists_.push_back(list);
      begins_.push_back(static_cast<Ref>(begin));
      if (sparse)
        for (std::size_t i = first; i < waiting.size(); i += kSparse) refs_.push_back(waiting[i]);
      else
        refs_.insert(refs_.end(), from, waiting.end());
      waiting.resize(first);
      waiting.push_back(static_cast<Ref>(lists_.size() - 1) | kList);
      ++at;
    } else {
      waiting.push_back(static_cast<Ref>(at));
      at = c == '"' ? behind_text(text_, at) : behind_word(text_, at);
    }
  }
  root_ = waiting.front();
}

JsonValue JsonDocument::root() const { return {*this, root_}; }

std::unique_ptr<JsonDocument> json_of_others(std::string_view text, const std::string& where) {
  try {
    return std::make_unique<JsonDocument>(text);
  } catch (const NotJson& fault) {
    if (fault.fault == NotJson::Fault::deep || fault.fault == NotJson::Fault::number)
      throw std::runtime_error(where + ": " + fault.what());
    return nullptr;
  }
}

std::string_view JsonValue::digits() const {
  const std::size_t at = begin();
  return of_->text_.substr(at, behind_word(of_->text_, at) - at);
}

bool JsonValue::is_number() const {
  const char c = first();
  return c == '-' || (c >= '0' && c <= '9');
}

std::optional<std::uint64_t> JsonValue::natural() const {
  if (!is_number()) return std::nullopt;
  const std::string_view text = digits();
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> JsonValue::integer() const {
  if (!is_number()) return std::nullopt;
  const std::string_view text = digits();
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

double JsonValue::number() const {
  const std::string_view text = digits();
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() ? value : text.starts_with('-') ? -0.0 : 0.0;  // too small
}

const char* JsonValue::type_name() const {
  return is_array()     ? "array"
         : is_object()  ? "object"
         : is_string()  ? "string"
         : is_null()    ? "null"
         : is_boolean() ? "boolean"
                        : "number";
}

std::size_t JsonValue::size() const {
  if (!is_list()) return is_null() ? 0 : 1;
  return is_object() ? list().count / 2 : list().count;
}

JsonValue JsonValue::operator[](std::size_t item) const {
  if (!list().sparse) return {*of_, of_->refs_[list().begin + item]};
  JsonValue out{*of_, of_->refs_[list().begin + item / JsonDocument::kSparse]};
  for (std::size_t i = item % JsonDocument::kSparse; i > 0; --i) out.ref_ = out.behind();
  return out;
}

JsonDocument::Ref JsonValue::behind() const {
  const std::string_view text = of_->text_;
  const std::size_t end = first() == '"' ? behind_text(text, ref_) : behind_word(text, ref_);
  return static_cast<Ref>(std::min(text.find_first_not_of(", \t\r\n", end), text.size()));
}

JsonValue JsonValue::member(std::size_t member) const {
  return {*of_, of_->refs_[list().begin + 2 * member + 1]};
}

std::string JsonValue::key(std::size_t member) const {
  return unescaped(between_quotes(of_->text_, of_->refs_[list().begin + 2 * member]));
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!is_object()) return std::nullopt;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string_view raw = between_quotes(of_->text_, of_->refs_[list().begin + 2 * i]);
    if (raw == key || (raw.find('\\') != std::string_view::npos && unescaped(raw) == key))
      return member(i);
  }
  return std::nullopt;
}

std::string JsonValue::text() const { return unescaped(between_quotes(of_->text_, begin())); }

std::string_view JsonValue::source() const {
  const std::size_t from = begin();
  const std::string_view text = of_->text_;
  if (is_string()) return text.substr(from, behind_text(text, from) - from);
  if (!is_list()) return digits();
  std::size_t depth = 0, at = from;
  do {
    if (text[at] == '"') {
      at = behind_text(text, at);
      continue;
    }
    if (text[at] == '[' || text[at] == '{') ++depth;
    if (text[at] == ']' || text[at] == '}') --depth;
    ++at;
  } while (depth > 0);
  return text.substr(from, at - from);
}

}  // namespace tidemark
