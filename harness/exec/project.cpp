#include "harness/exec/project.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "harness/errors.h"
#include "harness/exec/toml_file.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeys = "gpu, capacity, schedule, mode, timeout";

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw UsageError(file.string() + ": " + what);
}

ProjectSettings read(const fs::path& file, const toml::table& table) {
  ProjectSettings out;
  out.file = file;
  const std::map<std::string, std::string*, std::less<>> texts{{"gpu", &out.gpu},
                                                               {"capacity", &out.capacity},
                                                               {"schedule", &out.schedule},
                                                               {"mode", &out.mode}};
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (const auto text = texts.find(name); text != texts.end()) {
      const auto text_value = value.value_exact<std::string>();
      if (!text_value || text_value->empty())
        refuse(file, "[tool.tidemark] " + name + " must be a text");
      *text->second = *text_value;
    } else if (name == "timeout") {
      const auto seconds = value.value_exact<std::int64_t>();
      if (!seconds || *seconds < 1 || *seconds > 86400)
        refuse(file, "[tool.tidemark] timeout must be seconds, from 1 to 86400");
      out.timeout = static_cast<int>(*seconds);
    } else {
      refuse(file, "[tool.tidemark] has no setting " + name + " (there are: " + kKeys + ")");
    }
  }
  return out;
}

}  // namespace

std::string ProjectSettings::text() const {
  std::vector<std::string> set;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"gpu", gpu},
           {"capacity", capacity},
           {"schedule", schedule},
           {"mode", mode},
           {"timeout", timeout > 0 ? std::to_string(timeout) : ""}})
    if (!value.empty()) set.push_back(fmt::format("{} = {}", name, value));
  return fmt::format("{}", fmt::join(set, ", "));
}

std::optional<ProjectSettings> project_settings(const fs::path& folder) {
  for (fs::path place = fs::absolute(folder);; place = place.parent_path()) {
    const fs::path file = place / "pyproject.toml";
    std::error_code none;
    if (fs::is_regular_file(file, none)) {
      const toml::table all = read_toml(file);
      if (const toml::table* table = all["tool"]["tidemark"].as_table()) return read(file, *table);
      if (all["tool"]["tidemark"]) refuse(file, "[tool.tidemark] must be a table");
    }
    if (place == place.parent_path()) return std::nullopt;
  }
}

}  // namespace tidemark
