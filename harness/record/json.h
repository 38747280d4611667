// report.json: the record of a run as data, both ways. Its fields are those of fields.h.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "harness/record/record.h"

namespace tidemark {

inline constexpr const char* kSchema = "tidemark/report";
inline constexpr const char* kSchemaVersion = "1.3";

/// Keys in the schema's order. A number that is not finite has no place in JSON: it becomes null (a
/// loss keeps it in "hex").
nlohmann::ordered_json to_json(const Report& report);

/// The file's text: the same report gives the same bytes. Numbers in the shortest form that reads
/// back as the same number.
std::string json_text(const nlohmann::ordered_json& value);
std::string json_text(const Report& report);

/// One trial by itself, as it travels between ranks.
std::string json_text(const TrialRecord& trial);
/// Throws as parse_report does.
TrialRecord parse_trial(std::string_view text, const std::string& where);

/// Throws std::runtime_error in one line: `where`, what is wrong with the text, what to do. Reads
/// versions 1.x; what 1.0 did not have is empty.
Report parse_report(std::string_view text, const std::string& where);
/// `path` is report.json or the folder that holds it.
Report read_report(const std::filesystem::path& path);

/// JSON Schema (draft 7) of report.json, made from the fields.
nlohmann::ordered_json report_schema();

}  // namespace tidemark
