// tidemark report DIR: renders a run's report again.
#include <fmt/format.h>

#include <memory>

#include "harness/cli/files.h"
#include "reports/headline.h"
#include "reports/write.h"

namespace tidemark {

void add_report(CLI::App& app, Act& act) {
  auto* command = app.add_subcommand("report", "render DIR/report.json again");
  auto path = std::make_shared<std::string>();
  command->add_option("dir", *path, "the output folder of a run, or its report.json")->required();
  command->footer("exit codes: 0 rendered, however the run itself ended, 2 bad input");
  command->callback([path, &act] {
    act = [path] {
      const Rendered done = rerender(*path);
      fmt::print("{}\n{}\n", (done.folder / "report.html").string(), headline(done.report));
      return 0;
    };
  });
}

}  // namespace tidemark
