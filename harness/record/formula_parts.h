// The parts of a formula's text, as a list in which a part stands behind its own parts.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tidemark {

enum class PartKind { number, name, call, inside, negative, condition, infix };

/// A part of a formula. `parts` are places in the list of all parts; `text`: a name, an operator,
/// or all of a number.
struct Part {
  PartKind kind;
  std::string_view text;
  std::vector<std::size_t> parts;
  std::string_view source;  // all of it
};

/// The parts of a text; the last is the whole. Views of `text`. None: it is not an expression.
std::optional<std::vector<Part>> parts_of_formula(std::string_view text);

}  // namespace tidemark
