#include "harness/cli/output_folder.h"

#include <unistd.h>

#include <system_error>

#include "harness/plan.h"

namespace tidemark {

namespace fs = std::filesystem;

OutputFolder::OutputFolder(const std::string& wanted, const std::string& id)
    : path_(fs::absolute(wanted.empty() ? fs::path("tidemark-out") / id : fs::path(wanted)).lexically_normal()) {
  std::error_code error;
  if (fs::exists(path_, error)) {
    if (!fs::is_directory(path_)) throw UsageError("--out " + wanted + ": exists and is not a folder");
    if (!fs::is_empty(path_, error) || error)
      throw UsageError("--out " + wanted + ": exists and is not empty; tidemark never overwrites a run, choose another folder");
  }
  fs::create_directories(path_, error);
  if (error) throw UsageError("--out " + path_.string() + ": cannot be made: " + error.message());
  if (access(path_.c_str(), W_OK | X_OK) != 0) throw UsageError("--out " + path_.string() + ": is not writable");
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (fs::is_empty(path_, ignored)) fs::remove(path_, ignored);
}

void link_latest(const fs::path& folder) {
  std::error_code ignored;
  const fs::path link = folder.parent_path() / "latest", fresh = folder.parent_path() / ".latest.new";
  if (fs::exists(fs::symlink_status(link, ignored)) && !fs::is_symlink(link, ignored)) return;
  fs::remove(fresh, ignored);
  fs::create_directory_symlink(folder.filename(), fresh, ignored);
  fs::rename(fresh, link, ignored);
}

}  // namespace tidemark
