// tidemark report DIR [--base OTHER | --json]: renders a run's report again, or prints its record.
// --schema prints the schema of report.json.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/files.h"
#include "harness/cli/salvage.h"
#include "harness/cli/tests.h"
#include "harness/exec/job.h"
#include "harness/exec/recover.h"
#include "harness/print.h"
#include "harness/record/json.h"
#include "reports/compare/overlay.h"
#include "reports/compare/render.h"
#include "reports/headline.h"
#include "reports/history/nights_of.h"
#include "reports/program/page.h"
#include "reports/write.h"

namespace tidemark {

void add_report(CLI::App& app, Act& act) {
  auto* command =
      app.add_subcommand("report", "write the page and the other files of DIR/report.json again");
  auto path = std::make_shared<std::string>();
  command->add_option("dir", *path, "the output folder of a run, or its report.json");
  auto base = std::make_shared<std::string>();
  command->add_option(
      "--base", *base,
      "folder or report.json of another run, whose figures the page shows beside these");
  auto json = std::make_shared<bool>();
  command
      ->add_flag("--json", *json,
                 "print the whole record, with every value in its place, and write no files")
      ->excludes("--base");
  auto schema = std::make_shared<bool>();
  command->add_flag("--schema", *schema, "print the JSON Schema of report.json, without dir");
  command->footer("exit codes: 0 rendered, however the run itself ended, 2 bad input");
  command->callback([path, base, json, schema, &act] {
    if (path->empty() && !*schema) throw CLI::RequiredError("dir");
    act = [path, base, json, schema] {
      if (*schema) {
        print(stdout, "{}", json_text(report_schema()));
        return 0;
      }
      recover_report(*path);
      finish_run(*path);
      finish_tests(*path);
      if (*json) {
        const bool of_job = std::filesystem::exists(std::filesystem::path(*path) / "job");
        const Report report = of_job ? Job(*path).report() : read_whole(*path);
        report_text(report,
                    Extent::read_back)([](std::string_view part) { print(stdout, "{}", part); });
        return 0;
      }
      std::optional<Report> other;
      if (!base->empty()) other = read_report(*base);
      const auto changed = [](const Report& before, const Report& after) {
        return changes_of(compare(before, after, {}), {"base", before}, {"new", after});
      };
      const Rendered done = rerender(*path, other ? &*other : nullptr, changed, nights_beside);
      if (done.report.of_programs()) {
        std::optional<Changes> changes;
        if (other)
          changes =
              changes_of(compare(*other, done.report, {}), {"base", *other, records_beside(*base)},
                         {"new", done.report, done.folder});
        rerender_programs(done.folder, done.report, changes ? &*changes : nullptr);
      }
      print(stdout, "{}\n{}\n", (done.folder / "report.html").string(), headline(done.report));
      return 0;
    };
  });
}

}  // namespace tidemark
