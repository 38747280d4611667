// Renderings of one small report, compared with approved/. After a wanted change:
// TIDEMARK_APPROVE=1 approval_test, then read the difference before committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "harness/record/file.h"
#include "harness/record/json.h"
#include "reports/renderings.h"
#include "reports/testing/sample.h"
#include "reports/trace.h"

namespace tidemark {
namespace {

void approve(const std::string& name, const std::string& rendered) {
  const std::string path = std::string(TIDEMARK_APPROVED) + "/" + name;
  if (std::getenv("TIDEMARK_APPROVE")) {
    std::ofstream(path, std::ios::binary) << rendered;
    return;
  }
  EXPECT_EQ(rendered, read_bytes(path))
      << path << " (wanted? TIDEMARK_APPROVE=1 approval_test writes it)";
}

TEST(Approval, Text) { approve("table.txt", text_of(small_report())); }
TEST(Approval, ColouredText) { approve("table_coloured.txt", text_of(small_report(), true)); }
TEST(Approval, LargerText) { approve("table_large.txt", text_of(sample_report(2))); }
TEST(Approval, HostileText) { approve("table_hostile.txt", text_of(hostile_report())); }
TEST(Approval, Json) { approve("report.json", json_text(small_report())); }
TEST(Approval, Markdown) { approve("summary.md", markdown(small_report())); }
TEST(Approval, MarkdownOfAGpu) { approve("summary_gpu.md", markdown(gpu_report())); }
TEST(Approval, JUnit) { approve("junit.xml", junit(small_report())); }
TEST(Approval, Benchmark) { approve("benchmark.json", whole(benchmark_json(small_report()))); }
TEST(Approval, BenchmarkOfAGpu) {
  approve("benchmark_gpu.json", whole(benchmark_json(gpu_report())));
}
TEST(Approval, Trace) { approve("trace.json", chrome_trace(small_report().trials[0].variants[0])); }
TEST(Approval, Loss) { approve("loss.txt", loss_lines(small_report().trials[0].variants[0])); }
TEST(Approval, TextOfACutRun) { approve("table_cut.txt", text_of(cut_report())); }
TEST(Approval, MarkdownOfACutRun) { approve("summary_cut.md", markdown(cut_report())); }
TEST(Approval, JUnitOfACutRun) { approve("junit_cut.xml", junit(cut_report())); }
TEST(Approval, Nothing) { approve("table_nothing.txt", text_of({})); }

}  // namespace
}  // namespace tidemark
