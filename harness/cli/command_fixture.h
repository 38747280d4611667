// Fixture for tests that start the command as a user does: in a folder of its own, with its output
// and exit code.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

extern char** environ;

namespace tidemark {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

struct Result {
  int code = -1;
  std::string out, err;
  double seconds = 0;
};

inline std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Command : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tidemark-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  pid_t start(const std::string& arguments, const std::string& before = "") {
    const std::string line = "cd " + folder_.string() + " && exec env " + before +
                             " " TIDEMARK_BINARY " " + arguments + " >out 2>err </dev/null";
    const char* argv[] = {"sh", "-c", line.c_str(), nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, "/bin/sh", nullptr, nullptr, const_cast<char**>(argv), environ), 0);
    return pid;
  }
  Result run(const std::string& arguments, const std::string& before = "") {
    const auto begin = Clock::now();
    int status = 0;
    waitpid(start(arguments, before), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(folder_ / "out"),
            read(folder_ / "err"), std::chrono::duration<double>(Clock::now() - begin).count()};
  }
  /// Until what was started says that it has come to a variant; a minute at most.
  void until_it_runs() {
    for (int i = 0; i < 600 && read(folder_ / "err").find("[1/") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  static std::size_t lines(const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

  fs::path folder_;
};

}  // namespace tidemark
