#include "harness/record/write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "harness/virtual/device/new_file.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDraft = ".partial";
constexpr const char* kLink =
    "is a link, and a folder that came from elsewhere may lead anywhere by it: put a folder in its "
    "place";

bool write_whole(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t some = ::write(file, bytes.data(), bytes.size());
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(some));
  }
  return true;
}

bool is_link(const fs::path& path) {
  std::error_code none;
  return fs::is_symlink(fs::symlink_status(path, none));
}

}  // namespace

void write_files(const fs::path& folder, const std::vector<File>& files,
                 const std::string& remedy) {
  Drafts drafts(folder, remedy);
  for (const File& file : files) drafts.write(file);
  drafts.publish();
}

void write_bytes(const fs::path& file, std::string_view bytes) {
  const int opened = create_file(file.c_str());
  const Held guard(opened);
  if (opened < 0 || !write_whole(opened, bytes))
    throw std::runtime_error(
        fmt::format("{}: cannot be written: {}", file.string(), std::strerror(errno)));
}

bool append_bytes(const fs::path& file, std::string_view bytes) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  const Held guard(opened);
  return opened >= 0 && write_whole(opened, bytes);
}

void refuse_links(const fs::path& folder, const fs::path& below) {
  fs::path place = folder;
  if (below.is_absolute())
    throw std::runtime_error(
        fmt::format("{}: leads out of the folder {}", below.string(), folder.string()));
  for (const fs::path& part : below) {
    place /= part;
    std::error_code none;
    if (part == ".." || (is_link(place) && fs::is_directory(place, none)))
      throw std::runtime_error(
          fmt::format("{} {}", place.string(), part == ".." ? "leads out of the folder" : kLink));
  }
}

Drafts::Drafts(fs::path folder, std::string remedy)
    : folder_(folder.empty() ? "." : std::move(folder)), remedy_(std::move(remedy)) {}

Drafts::~Drafts() {
  std::error_code ignored;
  for (const fs::path& draft : drafts_) fs::remove((folder_ / draft).string() + kDraft, ignored);
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
    fs::remove(*folder, ignored);  // if empty
}

void Drafts::refuse(const fs::path& path, const std::string& what) const {
  throw std::runtime_error(fmt::format("{}: {}: {}", path.string(), what, remedy_));
}

void Drafts::make(const fs::path& path) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  make(path.parent_path());
  fs::create_directory(path, error);
  if (error) refuse(path, "cannot be made: " + error.message());
  made_.push_back(path);
}

Held Drafts::open_folder(const fs::path& below) {
  make(folder_);
  int at = ::open(folder_.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  Held held(at);
  if (at < 0) refuse(folder_, std::string("cannot be opened: ") + std::strerror(errno));
  fs::path place = folder_;
  for (const fs::path& part : below) {
    place /= part;
    if (part == "..") refuse(place, "leads out of the folder");
    if (mkdirat(at, part.c_str(), 0777) == 0)
      made_.push_back(place);
    else if (errno != EEXIST)
      refuse(place, std::string("cannot be made: ") + std::strerror(errno));
    at = openat(at, part.c_str(), O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);
    const int error = errno;
    held = Held(at);
    if (at >= 0) continue;
    if (is_link(place)) refuse(place, kLink);
    refuse(place, std::string("cannot be opened: ") + std::strerror(error));
  }
  return held;
}

void Drafts::write(const File& file) {
  const fs::path path = file.path;
  const Held folder = open_folder(path.parent_path());
  const std::string draft = path.filename().string() + kDraft;
  drafts_.push_back(path);
  const int opened = create_file_at(folder.file(), draft.c_str(), O_WRONLY, 0666);
  Held guard(opened);
  const auto check = [&](bool done, const fs::path& at) {
    if (!done) refuse(folder_ / at, std::string("cannot be written: ") + std::strerror(errno));
  };
  const bool taken = errno == EISDIR || errno == EEXIST;  // by what is no file
  check(opened >= 0, taken ? path.parent_path() / draft : path);
  const Put put = [&](std::string_view part) { check(write_whole(opened, part), path); };
  file.text ? file.text(put) : put(file.bytes);
}

void Drafts::publish() {
  for (const fs::path& path : drafts_) {
    const Held folder = open_folder(path.parent_path());
    const std::string name = path.filename();
    struct stat old {};
    if (fstatat(folder.file(), name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 &&
        (S_ISCHR(old.st_mode) || S_ISBLK(old.st_mode)))
      refuse(folder_ / path, "is a device, which no file is put in the place of");
    if (renameat(folder.file(), (name + kDraft).c_str(), folder.file(), name.c_str()) != 0)
      refuse(folder_ / path, std::string("cannot be put in place: ") + std::strerror(errno));
  }
  drafts_.clear();
  made_.clear();
}

}  // namespace tidemark
