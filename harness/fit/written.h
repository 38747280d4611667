// JSON that `tidemark fit` and `tidemark advise` write.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tidemark {

/// The fields of a record, after its schema.
std::string document_of(const std::string& schema, const nlohmann::ordered_json& fields);
/// Writes the file of --out, whole or not at all. Throws std::runtime_error in one line.
void write_out(const std::string& out, const std::string& document);

}  // namespace tidemark
