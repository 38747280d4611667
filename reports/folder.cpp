#include "reports/folder.h"

#include <algorithm>

#include "harness/record/json.h"

namespace tidemark {

namespace fs = std::filesystem;

fs::path default_folder(const std::string& id) { return fs::absolute("tidemark-out") / id; }

void point_to(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  const fs::path link = folder.parent_path() / name,
                 fresh = folder.parent_path() / ("." + name + ".new");
  if (fs::exists(fs::symlink_status(link, ignored)) && !fs::is_symlink(link, ignored)) return;
  fs::remove(fresh, ignored);
  fs::create_directory_symlink(folder.filename(), fresh, ignored);
  fs::rename(fresh, link, ignored);
}

std::string irreplaceable(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error), here = fs::current_path(error);
  if (std::ranges::mismatch(whole, here).in1 == whole.end())
    return "--force does not empty the current folder or one above it";
  if (const std::string why = unfinished_in(folder); !why.empty()) return why;
  if (!fs::is_regular_file(folder / "report.json", error))
    return "--force replaces a report, and there is no report.json";
  return "";
}

void empty_folder(const fs::path& folder, const std::string& kept) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (kept.empty() || entry.path().filename() != kept) fs::remove_all(entry.path());
}

}  // namespace tidemark
