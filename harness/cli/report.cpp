// tidemark report DIR [--base OTHER]: renders a run's report again.
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
  auto base = std::make_shared<std::string>();
  command->add_option("--base", *base,
                      "another run's folder or report.json: its figures stand beside");
  command->footer("exit codes: 0 rendered, however the run itself ended, 2 bad input");
  command->callback([path, base, &act] {
    act = [path, base] {
      const Rendered done = rerender(*path, *base);
      fmt::print("{}\n{}\n", (done.folder / "report.html").string(), headline(done.report));
      return 0;
    };
  });
}

}  // namespace tidemark
