#include "harness/testing/mutants.h"

#include <cctype>
#include <utility>

namespace tidemark::testing {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Words (numbers, symbols) and the characters between them.
std::vector<std::string> tokens(const std::string& text) {
  std::vector<std::string> all;
  for (const char c : text)
    if (!all.empty() && in_word(c) && in_word(all.back().back()))
      all.back() += c;
    else
      all.emplace_back(1, c);
  return all;
}

}  // namespace

std::vector<Mutant> mutants(const Formula& formula, int& equal) {
  const auto words = tokens(formula.text);
  const double value = formula.evaluate();
  std::vector<Mutant> all;
  const auto add = [&](std::size_t place, const std::string& instead) {
    Mutant mutant{words[place] + " -> " + instead + " in " + formula.text, {"", formula.values}};
    for (std::size_t i = 0; i < words.size(); ++i)
      mutant.formula.text += i == place ? instead : words[i];
    if (mutant.formula.evaluate() == value)
      ++equal;
    else
      all.push_back(std::move(mutant));
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) {
      add(i, "(" + word + " + 1)");
      add(i, "(" + word + " - 1)");
    } else if (formula.values.contains(word)) {
      add(i, "(2*" + word + ")");
      add(i, "(0*" + word + ")");
      for (const auto& [other, ignored] : formula.values)
        if (other != word) add(i, other);
    }
  }
  return all;
}

}  // namespace tidemark::testing
