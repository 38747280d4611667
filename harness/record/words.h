// Words of enumerators: words(Enum) gives those of a type, in their order.
#pragma once

#include <cstddef>

namespace tidemark {

/// The word of one of them.
template <class Enum>
  requires requires { words(Enum()); }
constexpr const char* name_of(Enum one) {
  return words(Enum())[static_cast<std::size_t>(one)];
}

}  // namespace tidemark
