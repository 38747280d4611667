#include "harness/cli/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/errors.h"
#include "harness/help.h"
#include "harness/record/one_line.h"

namespace tidemark {
namespace {

/// Letters changed, added, left out or swapped with their neighbour.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* command : app.get_subcommands(nullptr)) out.push_back(command->get_name());
  return out;
}

/// True if a word may be a value, or the thing that the command works on.
bool takes_words(const CLI::App& command) {
  return commands_of(command).empty() ||
         std::ranges::any_of(command.get_options(),
                             [](const CLI::Option* option) { return option->get_positional(); });
}

/// "snapshot convert ": the commands that the words name, each with a blank behind it.
std::string commands_in(const CLI::App& app, const std::vector<std::string>& words) {
  std::string out;
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const auto known = commands_of(*command);
    if (std::ranges::find(known, word) == known.end()) break;
    command = command->get_subcommand(word);
    out += word + " ";
  }
  return out;
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  constexpr std::size_t kNear = 2, kLeast = 3;
  std::string best;
  std::size_t least = kNear + 1;
  for (const std::string& name : names) {
    const bool begins = word.size() >= kLeast && name.starts_with(word);
    const std::size_t far = begins ? 1 : distance(word, name);
    if (far >= least || far * kLeast > word.size()) continue;
    best = name;
    least = far;
  }
  return best;
}

int parse_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    for (CLI::App* one = &app; one != nullptr;) {
      take_variables(*one);
      const auto chosen = one->get_subcommands();
      one = chosen.empty() ? nullptr : chosen.front();
    }
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> words{argv + std::min(argc, 1), argv + argc};
    const std::string meant = suggestion(app, words);
    if (meant.starts_with('\'')) throw UsageError(meant);  // it names the word, and says all
    throw UsageError(std::string(error.what()) +
                     (meant.empty() ? fmt::format(" (tidemark {}--help lists commands and flags)",
                                                  commands_in(app, words))
                                    : ": " + meant));
  }
  return -1;
}

std::string suggestion(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const bool option = word.starts_with("--");
    const std::string name = option ? word.substr(0, word.find('=')) : word;
    const auto known = option ? options_of(*command) : commands_of(*command);
    if (std::ranges::find(known, name) != known.end()) {
      if (!option) command = command->get_subcommand(name);
      continue;
    }
    const std::string meant = nearest(name, known);
    if (!meant.empty()) return "did you mean " + meant + "?";
    if (option || takes_words(*command)) continue;
    if (command == &app) return "";
    const bool old = command->get_name() == "snapshot" && word == "diff";  // its name until 1.0
    return fmt::format("'{}' is no command of {}, which has {}{}", one_line(word),
                       command->get_name(), fmt::join(known, ", "),
                       old ? "; tidemark compare A B compares two snapshots" : "");
  }
  return "";
}

}  // namespace tidemark
