#include "harness/fit/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/exec/toml_file.h"
#include "harness/record/file.h"
#include "harness/record/write.h"
#include "harness/virtual/device/nesting.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw UsageError("fit: " + file.string() + ": " + what);
}

toml::table table_of(const fs::path& file) try {
  return read_toml(file);
} catch (const UsageError& error) {
  throw UsageError("fit: " + std::string(error.what()));
}

std::string read_file(const fs::path& file) try {
  return read_bytes(file, "", kMostToml);
} catch (const std::runtime_error& error) {
  throw UsageError(std::string("fit: ") + error.what());
}

ordered_json read_json(const fs::path& file) {
  const std::string text = read_file(file);
  if (is_too_deep(text)) fail(file, kTooDeep);
  ordered_json all = ordered_json::parse(text, nullptr, false);
  if (all.is_discarded()) fail(file, "is not JSON");
  return all;
}

bool is_toml(const fs::path& file) {
  if (file.extension() == ".toml") return true;
  if (file.extension() == ".json") return false;
  fail(file, "a key can be varied in a file that ends in .toml or .json");
}

ordered_json::json_pointer pointer(const std::string& key) {
  std::string path = "/" + key;
  for (std::size_t at = 0; (at = path.find('~', at)) != std::string::npos; at += 2)
    path.replace(at, 1, "~0");  // RFC 6901
  std::ranges::replace(path, '.', '/');
  return ordered_json::json_pointer(path);
}

[[noreturn]] void no_key(const fs::path& file, const std::string& key) {
  fail(file, "has no key " + key);
}

[[noreturn]] void wrong(const fs::path& file, const std::string& key, const std::string& value) {
  fail(file, fmt::format("{} cannot be {}: the value there is of another type", key, value));
}

/// A number or truth value of a text, or null.
ordered_json plain(const std::string& value) {
  const ordered_json parsed =
      is_too_deep(value) ? ordered_json() : ordered_json::parse(value, nullptr, false);
  return parsed.is_number() || parsed.is_boolean() ? parsed : ordered_json();
}

void set(toml::table& all, const fs::path& file, const std::string& key, const std::string& value) {
  const auto node = all.at_path(key);
  const ordered_json given = plain(value);
  if (auto* text = node.as_string())
    *text = value;
  else if (auto* whole = node.as_integer(); whole != nullptr && given.is_number_integer())
    *whole = given.get<std::int64_t>();
  else if (auto* real = node.as_floating_point(); real != nullptr && given.is_number())
    *real = given.get<double>();
  else if (auto* truth = node.as_boolean(); truth != nullptr && given.is_boolean())
    *truth = given.get<bool>();
  else
    wrong(file, key, value);
}

std::string word_of(const fs::path& file, const std::string& key, const toml::node& node) {
  if (const auto text = node.value<std::string>()) return *text;
  if (const auto whole = node.value_exact<std::int64_t>()) return std::to_string(*whole);
  if (const auto real = node.value_exact<double>()) return fmt::format("{}", *real);
  fail(file, key + " must be a text, a number or a list of them");
}

std::vector<std::string> texts_of(const fs::path& file, const std::string& key,
                                  const toml::node& node) {
  std::vector<std::string> all;
  if (const toml::array* list = node.as_array())
    for (const toml::node& each : *list) all.push_back(word_of(file, key, each));
  else
    all.push_back(word_of(file, key, node));
  return all;
}

}  // namespace

void check_config_file(const fs::path& file, const std::string& key) {
  if (is_toml(file)) {
    if (!table_of(file).at_path(key)) no_key(file, key);
  } else if (!read_json(file).contains(pointer(key))) {
    no_key(file, key);
  }
}

void write_config_file(const fs::path& file, const std::map<std::string, std::string>& values,
                       const fs::path& to) {
  TextOut out;
  if (is_toml(file)) {
    toml::table all = table_of(file);
    for (const auto& [key, value] : values) set(all, file, key, value);
    out << all << '\n';
  } else {
    ordered_json all = read_json(file);
    for (const auto& [key, value] : values) {
      ordered_json& place = all.at(pointer(key));
      const ordered_json given = plain(value);
      if (place.is_string())
        place = value;
      else if ((place.is_number() && given.is_number()) ||
               (place.is_boolean() && given.is_boolean()))
        place = given;
      else
        wrong(file, key, value);
    }
    out << all.dump(2) << '\n';
  }
  try {
    write_bytes(to, out.str());
  } catch (const std::runtime_error& error) {
    throw UsageError(std::string("fit: ") + error.what());
  }
}

std::vector<std::string> words_of_config(const fs::path& file) {
  if (!fs::is_regular_file(file)) fail(file, "is not a file");
  const toml::table all = table_of(file);
  std::vector<std::string> words, command;
  for (const auto& [name, node] : all) {
    const std::string key(name.str());
    if (const toml::table* table = node.as_table()) {
      if (key != "vary") fail(file, "has a table [" + key + "]: the only table is [vary]");
      for (const auto& [variable, values] : *table) {
        words.push_back("--vary");
        words.push_back(
            fmt::format("{}={}", variable.str(), fmt::join(texts_of(file, "vary", values), ",")));
      }
    } else if (key == "command") {
      command = texts_of(file, key, node);
      if (!node.is_array()) {  // a text: words between spaces
        TextIn in(command.front());
        command.assign(std::istream_iterator<std::string>(in), {});
      }
    } else if (const auto truth = node.value_exact<bool>()) {
      words.push_back(fmt::format("--{}{}", *truth ? "" : "no-", key));
    } else {
      words.push_back("--" + key);
      words.push_back(fmt::format("{}", fmt::join(texts_of(file, key, node), ",")));
    }
  }
  if (!command.empty()) words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace tidemark
