#include "harness/fit/written.h"

#include <filesystem>

#include "harness/record/json_writer.h"
#include "reports/write.h"

namespace tidemark {

std::string document_of(const std::string& schema, const nlohmann::ordered_json& fields) {
  nlohmann::ordered_json document{{"schema", schema}, {"schema_version", "1.0"}};
  document.update(fields);
  return json_text(document);
}

void write_out(const std::string& out, const std::string& document) {
  const std::filesystem::path file = std::filesystem::absolute(out);
  write_files(file.parent_path(), {{file.filename().string(), document}},
              "name another file (--out)");
}

}  // namespace tidemark
