#include "harness/fit/cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "harness/print.h"
#include "harness/record/file.h"
#include "harness/record/fit_fields.h"
#include "harness/record/json_reader.h"
#include "harness/record/one_line.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostOfRun = 64 << 20;  // bytes of a run that is kept
constexpr std::size_t kMostFiles = 4000;
constexpr std::uintmax_t kMostBytes = 4 << 20;  // a larger file counts by its size and time

bool is_input(const fs::path& file) {
  static const std::set<std::string> endings{".py", ".toml", ".yaml", ".yml"};
  return endings.contains(file.extension().string());
}

void add_file(CacheKey& key, const fs::path& file) {
  std::error_code none;
  const std::uintmax_t size = fs::file_size(file, none);
  if (none) return;
  if (size > kMostBytes) {
    key.add(fmt::format("{} {}", size, fs::last_write_time(file, none).time_since_epoch().count()));
    return;
  }
  try {
    key.add(read_bytes(file));
  } catch (const std::runtime_error&) {  // gone since: another content
  }
}

std::vector<fs::path> beside(const fs::path& script) {
  std::vector<fs::path> all;
  std::error_code none;
  const fs::path folder = fs::absolute(script).parent_path();
  for (fs::recursive_directory_iterator
           at(folder, fs::directory_options::skip_permission_denied, none),
       end;
       !none && at != end && all.size() < kMostFiles; at.increment(none)) {
    const std::string name = at->path().filename();
    if (at->is_directory(none) && (name.starts_with(".") || name == "__pycache__"))
      at.disable_recursion_pending();
    else if (is_input(at->path()) && at->is_regular_file(none))
      all.push_back(at->path());
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

void CacheKey::add(const std::string& text) {
  const auto mix = [&](unsigned char c) {  // FNV-1a, from two beginnings and with two primes
    first_ = (first_ ^ c) * 0x100000001b3;
    second_ = (second_ ^ c) * 0x10000000233;
  };
  for (const char c : text) mix(static_cast<unsigned char>(c));
  mix(0xff), mix(0);
}

void CacheKey::add_inputs(const std::vector<std::string>& program) {
  std::set<fs::path> folders;
  std::error_code none;
  for (const std::string& word : program) {
    if (!fs::is_regular_file(word, none)) continue;
    add_file(*this, word);
    const fs::path file = word;
    if (file.extension() != ".py" || !folders.insert(fs::absolute(file).parent_path()).second)
      continue;
    for (const fs::path& each : beside(file)) add(each.string()), add_file(*this, each);
  }
}

std::string not_ours(const fs::path& folder, bool make) {
  std::error_code error;
  if (make) {
    const mode_t before = umask(077);
    fs::create_directories(folder, error);
    umask(before);
    if (error) return fmt::format("{}: cannot be made: {}", folder.string(), error.message());
  }
  for (fs::path place = folder; !place.empty(); place = place.parent_path()) {
    struct stat facts {};
    const bool top = place == folder;
    if (stat(place.c_str(), &facts) == 0) {
      const bool others_write = (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
      if (facts.st_uid != geteuid() && (top || facts.st_uid != 0))
        return fmt::format("{} belongs to another user", place.string());
      if (others_write && (top || (facts.st_mode & S_ISVTX) == 0))
        return fmt::format("other users can write to {}", place.string());
      if (top && (facts.st_mode & 077) != 0) chmod(place.c_str(), 0700);
    }
    if (place == place.parent_path()) break;
  }
  return "";
}

std::string CacheKey::name() const { return fmt::format("{:016x}{:016x}", first_, second_); }

std::optional<FitRun> cached_run(const fs::path& folder, const std::string& name,
                                 const Wanted& wanted) {
  const std::string file = folder / (name + ".json");
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  try {
    const std::string bytes = read_bytes(file, "", kMostOfRun);
    const JsonDocument text(bytes);
    FitRun run;
    JsonReader::read(Node(text.root(), file), run);
    if (run.values != wanted.values || run.gpu != wanted.gpu || run.capacity != wanted.capacity ||
        run.room != wanted.room)
      return std::nullopt;  // the answer to another question
    run.cached = true;
    return run;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // of another version, or damaged: it runs again
    return std::nullopt;
  }
}

void keep_run(const fs::path& folder, const std::string& name, const FitRun& run) {
  static bool warned = false;
  try {
    if (const std::string why = not_ours(folder, true); !why.empty()) throw std::runtime_error(why);
    write_files(folder, {{name + ".json", json_text(json_of(run))}});
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    if (!warned) print(stderr, "warning: results are not kept: {}\n", one_line(error.what()));
    warned = true;
  }
}

}  // namespace tidemark
