#include <fmt/format.h>

#include "reports/history/history.h"

namespace tidemark {
namespace {

constexpr int kApplication = 0x7469646d;  // "tidm", in the file's header

constexpr const char* kTables = R"(
CREATE TABLE run (
  key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, started TEXT NOT NULL, folder TEXT NOT NULL,
  tidemark TEXT, git TEXT, torch TEXT, device TEXT, host TEXT, argv TEXT, duration_ns INTEGER,
  exit_code INTEGER, passed INTEGER, failed INTEGER, skipped INTEGER);
CREATE TABLE series (
  key INTEGER PRIMARY KEY, trial TEXT NOT NULL, settings TEXT NOT NULL, device TEXT NOT NULL,
  variant TEXT NOT NULL, metric TEXT NOT NULL, kind INTEGER NOT NULL, worse INTEGER NOT NULL,
  unit TEXT NOT NULL, UNIQUE (trial, settings, device, variant, metric));
CREATE TABLE point (
  series INTEGER NOT NULL REFERENCES series ON DELETE CASCADE,
  run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  value REAL, PRIMARY KEY (series, run)) WITHOUT ROWID;
CREATE INDEX point_of_run ON point (run);
)";

}  // namespace

void check_tables(Database& database) {
  const auto version = database.number("PRAGMA user_version");
  const auto application = database.number("PRAGMA application_id");
  if (application != kApplication)
    database.fail("is another program's database: tidemark leaves it alone");
  if (database.number("SELECT count(*) FROM sqlite_master WHERE type <> 'table' AND name IN "
                      "('run', 'series', 'point')") > 0)
    database.fail("is damaged (a table is none): move it away, and the next run begins a new one");
  if (version > kHistoryVersion)
    database.fail(fmt::format(
        "has schema {} where this tidemark knows {}: use the newer tidemark, or another folder",
        version, kHistoryVersion));
}

void prepare_tables(Database& database) {
  const auto empty = [&] {
    return database.number("SELECT count(*) FROM sqlite_master") == 0 &&
           database.number("PRAGMA application_id") == 0;
  };
  if (!empty()) check_tables(database);  // before anything is written, the journal's mode included
  // Readers of a write-ahead log write files beside it; those of a rollback journal do not. Where
  // the mode cannot be changed (another process has the file open) the one that is there serves.
  sqlite3_exec(database.handle(), "PRAGMA journal_mode = DELETE", nullptr, nullptr, nullptr);
  database.run("PRAGMA foreign_keys = ON");
  Transaction transaction(database);
  if (empty()) {
    database.run(kTables);
    database.run(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication,
                             kHistoryVersion)
                     .c_str());
  } else {
    check_tables(database);  // another process may have made them meanwhile
  }
  transaction.commit();
}

}  // namespace tidemark
