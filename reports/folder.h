// Folders of runs, of `tidemark run` and of `tidemark exec`: where they lie, and what replaces one.
#pragma once

#include <filesystem>
#include <string>

namespace tidemark {

/// The folder of a run for which none is named, below the current one: tidemark-out/<id>.
std::filesystem::path default_folder(const std::string& id);

/// Makes (or moves) the link `name` beside `folder` to it. Where it cannot be made, it is left out.
void point_to(const std::filesystem::path& folder, const std::string& name);

/// Empty if --force may replace what is in `folder`; else why not. A report's folder can be
/// replaced, and not the current folder or one above it.
std::string irreplaceable(const std::filesystem::path& folder);

/// Removes everything in `folder` but the entry `kept`.
void empty_folder(const std::filesystem::path& folder, const std::string& kept = "");

}  // namespace tidemark
