// Values that occur more than once in a JSON text, written once.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tidemark {

/// Moves the arrays, objects and longer texts that come up more than once in `value` to a list,
/// which it returns; in their place stands "$N", N being the place in the list. What is in the list
/// refers to earlier places alone. A text that begins with '$' gets another '$' in front.
nlohmann::ordered_json share(nlohmann::ordered_json& value);

/// True if a text refers to the list.
inline bool is_reference(const std::string& text) {
  return text.size() > 1 && text[0] == '$' && text[1] != '$';
}

}  // namespace tidemark
