// Commands that read files, run as main() runs them.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "harness/cli/files.h"
#include "reports/testing/sample.h"
#include "reports/write.h"

namespace tidemark {

struct Result {
  int code = -1;
  std::string out, err;
};

/// As main() does it.
inline Result run(std::vector<std::string> words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Result result;
  try {
    CLI::App app("", "tidemark");
    Act act;
    add_file_commands(app, act);
    std::reverse(words.begin(), words.end());
    app.parse(words);
    result.code = run_act(act);
  } catch (const CLI::ParseError& error) {
    result.code = 2;
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

inline void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    write_all(folder_ / "base", small_report());
    Report worse = small_report();
    worse.trials[0].variants[1].ranks[0].steps[0].phases[0][Statistic::active].peak += 512;
    write_all(folder_ / "worse", worse);
  }
  /// Writes a file with this text; returns its path.
  std::string put(const std::string& name, const std::string& text) const {
    write(folder_ / name, text);
    return folder_ / name;
  }
  Result refused(const std::vector<std::string>& words, const std::string& says) {
    Result result = run(words);
    EXPECT_EQ(result.code, 2) << words.back();
    EXPECT_THAT(result.err, testing::HasSubstr(says));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    return result;
  }
  ScratchFolder folder_;
};

}  // namespace tidemark
