// One writer of files (ci/structure): what was there is replaced, and never written through.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/growing_text.h"
#include "harness/record/lock.h"

namespace tidemark {

struct File {
  std::string path;  // below the folder
  std::string bytes = {};
  TextMaker text = {};  // in place of bytes, made while it is written
};

/// All or nothing, as far as a file system allows: the files are written beside their names, and
/// appear by renaming once all are whole. `folder` is made if it is not there, and may be a link.
/// Below it no link is followed: a link to a folder is refused by name, and one in the place of a
/// file is replaced. Throws std::runtime_error in one line that ends with `remedy`.
void write_files(const std::filesystem::path& folder, const std::vector<File>& files,
                 const std::string& remedy = "choose another output folder (--out)");

/// A new file of a folder that tidemark has made. Throws std::runtime_error in one line.
void write_bytes(const std::filesystem::path& file, std::string_view bytes);

/// Adds to the end of a file that is another program's, and which is made if it is not there.
/// False, with errno, where that cannot be.
bool append_bytes(const std::filesystem::path& file, std::string_view bytes);

/// Throws std::runtime_error in one line where `below` leads over a link to a folder: a folder that
/// came from elsewhere could make it lead anywhere.
void refuse_links(const std::filesystem::path& folder, const std::filesystem::path& below);

/// Files written under other names, gone again unless they are published.
class Drafts {
 public:
  Drafts(std::filesystem::path folder, std::string remedy);
  ~Drafts();
  Drafts(const Drafts&) = delete;
  Drafts& operator=(const Drafts&) = delete;

  void write(const File& file);
  /// Renames all that were written.
  void publish();

 private:
  /// The open folder of a path below `folder_`, which is made where it is not there.
  Held open_folder(const std::filesystem::path& below);
  void make(const std::filesystem::path& folder);
  [[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) const;

  std::filesystem::path folder_;
  std::string remedy_;
  std::vector<std::filesystem::path> drafts_;  // below folder_, by their names to be
  std::vector<std::filesystem::path> made_;    // folders
};

}  // namespace tidemark
