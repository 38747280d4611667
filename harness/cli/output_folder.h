// The folder of a run: made before anything runs, so that an unwritable place is found at once; never one that has something
// in it.
#pragma once

#include <filesystem>
#include <string>

namespace tidemark {

class OutputFolder {
 public:
  /// `wanted` empty: tidemark-out/<id>. Throws UsageError where it exists and is not empty, or cannot be written.
  OutputFolder(const std::string& wanted, const std::string& id);
  /// Removes the folder again where nothing was written into it.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Makes (or moves) the link `latest` beside the folder. What cannot be linked is left out.
void link_latest(const std::filesystem::path& folder);

}  // namespace tidemark
