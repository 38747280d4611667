// Flags of a command line: their help within 80 columns, and their names in the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "harness/virtual/device/text.h"

namespace tidemark {

/// Lines of at most 80 columns; those after the first begin with `indent` blanks. `used`: columns
/// that the first has already.
inline std::string wrapped(const std::string& text, std::size_t indent, std::size_t used) {
  constexpr std::size_t kColumns = 80;
  TextIn lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t own = line.find_first_not_of(' ');  // of an example
    if (!out.empty()) out += "\n" + std::string(indent, ' '), used = indent;
    if (own != std::string::npos && own > 0) out += std::string(own, ' '), used += own;
    TextIn words(line);
    bool first = true;
    for (std::string word; words >> word; first = false) {
      if (!first && used + 1 + word.size() > kColumns)
        out += "\n" + std::string(indent, ' '), used = indent;
      else if (!first)
        out += ' ', ++used;
      out += word, used += word.size();
    }
  }
  return out;
}

/// Writes help texts that fit a terminal of 80 columns.
class Help : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string name = make_option_name(option, positional) + make_option_opts(option);
    constexpr std::string_view kOff = "{false}";  // of --no-... that is the same option
    if (const std::size_t at = name.find(kOff); at != name.npos) name.erase(at, kOff.size());
    return entry(name, make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(CLI::Formatter::make_description(app), 0, 0) + "\n";
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string text = app->get_footer();
    return text.empty() ? "" : "\n" + wrapped(text, 0, 0) + "\n";
  }

 private:
  static std::string entry(const std::string& name, const std::string& what) {
    constexpr std::size_t kColumn = 20, kDeep = 6;
    std::string out = "  " + wrapped(name, kDeep, 2);
    const std::size_t used = out.size() - (out.rfind('\n') + 1);
    if (what.empty()) return out + "\n";
    out += used + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - used, ' ');
    return out + wrapped(what, kColumn, kColumn) + "\n";
  }
};

/// The flag --as-rank is TIDEMARK_AS_RANK in the environment too.
inline CLI::Option* with_twin(CLI::Option* option) {
  std::string twin = "TIDEMARK_" + option->get_lnames().front();
  for (char& c : twin) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return option->envname(twin);
}

/// Takes over what variables say of options that the line does not give. CLI11 does so itself, but
/// from 2.2 on it passes over a value that is not valid. Throws CLI::ParseError.
inline void take_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_envname().empty() || option->count() > 0) continue;
    const char* value = std::getenv(option->get_envname().c_str());
    if (value == nullptr || *value == 0) continue;
    option->add_result(value);
    option->run_callback();
  }
}

/// Puts the options of these names into a group of the help.
inline void group(CLI::App* app, const std::string& title, const std::vector<std::string>& names) {
  for (const std::string& name : names) app->get_option(name)->group(title);
}

}  // namespace tidemark
