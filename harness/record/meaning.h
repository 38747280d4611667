// Kinds of values of the record, as report.json's schema names them, and the letters of
// enumerators.
#pragma once

#include <string_view>

#include "harness/record/record.h"

namespace tidemark {

/// A kind of value: its name among the schema's definitions, and its schema.
struct Meaning {
  const char* name = nullptr;  // null: the member's type says it all
  const char* schema = "";
  bool null_if_empty = false;
};
namespace meaning {
inline constexpr Meaning none{};
inline constexpr Meaning bytes{"bytes", R"({"type": "integer"})"};
inline constexpr Meaning ns{"ns", R"({"type": "integer"})"};
inline constexpr Meaning count{"count", R"({"type": "integer", "minimum": 0})"};
inline constexpr Meaning positive{"positive", R"({"type": "integer", "minimum": 1})"};
inline constexpr Meaning place{"place", R"({"type": "integer", "minimum": -1})"};
inline constexpr Meaning rank{"rank_number", R"({"type": "integer", "minimum": 0})"};
inline constexpr Meaning ratio{"ratio", R"({"type": "number", "minimum": 0})"};
inline constexpr Meaning name{"name", R"({"type": "string", "minLength": 1})"};
inline constexpr Meaning link{"link", R"({"type": "string", "pattern": "^https://"})"};
inline constexpr Meaning reason{"reason", R"({"type": ["string", "null"], "minLength": 1})", true};
inline constexpr Meaning device{"device_kind", R"({"enum": ["virtual", "cuda"]})"};
/// A word of MemoryKind; SchemaMaker writes the list.
inline constexpr Meaning memory_kind{"memory_kind", R"({"type": "string"})"};
/// Of a verdict's kind (verdict_kind.h), or "run"; SchemaMaker writes its pattern.
inline constexpr Meaning verdict{"verdict_name", R"({"type": "string"})"};
inline constexpr Meaning exit_code{"exit_code",
                                   R"({"type": "integer", "minimum": 0, "maximum": 255})"};
}  // namespace meaning

/// The letters of enumerators in columns, in their order.
inline constexpr std::string_view kSpanKinds = "olcw";     // operator, collective, copy, wait
inline constexpr std::string_view kActions = "arcsfmuno";  // those of AllocatorAction

}  // namespace tidemark
