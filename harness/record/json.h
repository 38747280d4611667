// report.json: the record of a run as data, both ways. Its fields are those of fields.h.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "harness/record/growing_text.h"
#include "harness/record/record.h"

namespace tidemark {

/// Fields of the record to write: all; those that are read back from a run's folder; those of
/// report.json of a run's folder; those of its details/ (f.detail and f.exported of fields.h name
/// them).
enum class Extent { whole, read_back, head, details };

class JsonSink;  // json_sink.h

inline constexpr const char* kSchema = "tidemark/report";
inline constexpr const char* kSchemaVersion = "3.2";

/// Keys in the schema's order. A number that is not finite has no place in JSON: it becomes null (a
/// loss keeps it in "hex").
nlohmann::ordered_json to_json(const Report& report, Extent extent = Extent::whole);

/// The file's text: the same report gives the same bytes. Numbers in the shortest form that reads
/// back as the same number.
std::string json_text(const nlohmann::ordered_json& value);
/// That of a value of which only parts are held at a time. What `value` refers to has to be there
/// when the text is made.
using PutJson = std::function<void(JsonSink& sink)>;
TextMaker json_text(PutJson value);
/// On one line.
std::string line_of(const nlohmann::ordered_json& value);
std::string json_text(const Report& report, Extent extent = Extent::whole);
/// The same, of a report that is there when the text is made.
TextMaker report_text(const Report& report, Extent extent = Extent::whole);

/// Verdicts of the same assertion together, in the order of their first; by rank among themselves.
void put_in_order(std::vector<Verdict>& all);

/// One trial by itself, as it travels between ranks.
std::string json_text(const TrialRecord& trial);
/// Throws as parse_report does.
TrialRecord parse_trial(std::string_view text, const std::string& where);

/// report.json of a run's folder: without the details, and what comes up more than once is written
/// once (shared.h). The report is there when the text is made.
TextMaker head_text(const Report& report);
/// The fields of a variant that `head_text` leaves out; empty where no rank has a record.
std::string details_text(const VariantRecord& variant);
/// Adds it to the variant as `head_text` has it. Throws as parse_report does, also where it is
/// another variant's.
void add_details(VariantRecord& variant, std::string_view text, const std::string& where);

/// Throws std::runtime_error in one line: `where`, what is wrong with the text, what to do. Reads
/// versions 1.x too; what 1.0 did not have is empty.
/// `each` is called with every trial that has been read, and may leave parts of it out.
Report parse_report(std::string_view text, const std::string& where,
                    const std::function<void(TrialRecord&)>& each = {});
/// A sentence for a folder with the records of a job, a run or a session of pytest that has not
/// written its report, with the command that writes it; empty for any other.
std::string unfinished_in(const std::filesystem::path& folder);
/// `path` is report.json or the folder that holds it. Without the details that are in files beside
/// it.
Report read_report(const std::filesystem::path& path,
                   const std::function<void(TrialRecord&)>& each = {});

/// JSON Schema (draft 7) of report.json, made from the fields.
nlohmann::ordered_json report_schema();

/// The text in quotes, as JSON in ASCII.
std::string json_quoted(const std::string& text);

}  // namespace tidemark
