// Nothing is written through a link, and nothing is read but files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "harness/record/file.h"
#include "harness/record/write.h"
#include "harness/testing/refusal.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (fs::is_regular_file(entry.symlink_status()))
      out[fs::relative(entry, folder).string()] = read_bytes(entry);
  return out;
}

struct Links : testing::Test {
  ScratchFolder scratch;
};

// Whatever stands as a link in a folder, at whatever depth, nothing is written outside of it.
TEST_F(Links, NoLinkIsWrittenThrough) {
  fs::create_directories(scratch / "victim/folder");
  std::ofstream(scratch / "victim/file") << "mine";
  const auto before = contents(scratch / "victim");
  const std::vector<File> files{{"a", "1"}, {"b/c", "2"}, {"b/d/e", "3"}, {"f.partial", "4"}};
  int number = 0;
  for (const char* name : {"a", "a.partial", "b", "b/c", "b/c.partial", "b/d", "b/d/e",
                           "b/d/e.partial", "f.partial", "f.partial.partial"})
    for (const char* target : {"victim/file", "victim/folder", "victim/not_there"}) {
      const fs::path folder = scratch / fmt::format("out{}", ++number);
      fs::create_directories((folder / name).parent_path());
      fs::create_symlink(scratch / target, folder / name);
      const std::string why = refusal([&] { write_files(folder, files); });
      const bool is_folder = std::string_view(name) == "b" || std::string_view(name) == "b/d";
      if (is_folder) EXPECT_THAT(why, HasSubstr(name)) << target;
      if (is_folder && std::string_view(target) != "victim/not_there")
        EXPECT_THAT(why, testing::AnyOf(HasSubstr("is a link"), HasSubstr("cannot be opened")));
      if (!is_folder) {
        EXPECT_EQ(why, kNothingRefused) << name << " " << target;
        EXPECT_EQ(contents(folder).size(), files.size());
        EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "b/d/e")));
      }
      EXPECT_EQ(contents(scratch / "victim"), before) << name << " " << target;
      EXPECT_FALSE(fs::exists(scratch / "victim/not_there")) << name;
    }
  EXPECT_THAT(refusal([&] {
                write_files(scratch / "up", {{"../x", "1"}});
              }),
              HasSubstr("leads out of the folder"));
  fs::create_directory_symlink(scratch / "victim/folder", scratch / "named");  // by the user
  write_files(scratch / "named", {{"x", "1"}});
  EXPECT_TRUE(fs::exists(scratch / "victim/folder/x"));
}

TEST_F(Links, ReadersTakeFilesAlone) {
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  fs::create_symlink(scratch / "pipe", scratch / "to_pipe");
  for (const fs::path& path : std::initializer_list<fs::path>{scratch / "pipe", scratch / "to_pipe",
                                                              "/dev/zero", scratch.path()})
    EXPECT_THAT(refusal([&] { read_bytes(path); }), HasSubstr("not a file")) << path;
  std::ofstream(scratch / "large") << std::string(5000, 'x');
  EXPECT_THAT(refusal([&] { read_bytes(scratch / "large", "", 4999); }),
              HasSubstr("more than 4999 bytes"));
  EXPECT_EQ(read_bytes(scratch / "large", "", 5000).size(), 5000u);
  EXPECT_EQ(first_bytes(scratch / "large", 7), "xxxxxxx");
  EXPECT_EQ(first_bytes(scratch / "pipe", 7), "");
}

}  // namespace
}  // namespace tidemark
