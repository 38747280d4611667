#include "reports/history/database.h"

#include <fmt/format.h>

#include <cerrno>
#include <new>

#include "harness/record/budget.h"
#include "harness/record/file.h"
#include "harness/record/units.h"
#include "reports/markup.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// "file:/a/b%20c?immutable=1": the name as SQLite's URIs have it.
std::string immutable_uri(const fs::path& file) {
  return "file:" + percent_encoded(fs::absolute(file).string(), "/._-") + "?immutable=1";
}

/// True if the file was left in write-ahead mode with an empty log. SQLite would make a -wal
/// and a -shm file to read it, which fails in a read-only folder.
bool quiet_write_ahead(const fs::path& file) {
  const std::string header = first_bytes(file, 20);
  if (header.size() < 20 || header[19] != 2) return false;
  std::error_code missing;
  const auto log = fs::file_size(file.string() + "-wal", missing);
  return missing || log == 0;
}

constexpr std::int64_t kMostHeap = std::int64_t{512} << 20;  // bytes of SQLite's
constexpr int kStep = 10'000;                                // instructions of SQLite's machine
constexpr std::int64_t kFewestSteps = 40'000;                // of kStep: 5 to 10 s
constexpr std::uintmax_t kStepsEach = 256;  // bytes of the file that explain one more

}  // namespace

Database::Database(const std::filesystem::path& file, Open how, int patience_ms)
    : file_(file.string()) {
  std::error_code missing;
  const auto kind = fs::status(file, missing).type();
  if (kind != fs::file_type::not_found && kind != fs::file_type::regular)
    throw HistoryError(file_ + ": is a folder, a pipe or a device, not a file");
  if (how != Open::read && fs::is_symlink(fs::symlink_status(file, missing)))
    throw HistoryError(file_ + ": is a link, through which nothing is written: give the file");
  const int flags =
      how == Open::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const bool immutable = how == Open::read && quiet_write_ahead(file);
  const int code = sqlite3_open_v2(immutable ? immutable_uri(file).c_str() : file_.c_str(),
                                   &handle_, immutable ? flags | SQLITE_OPEN_URI : flags, nullptr);
  if (code != SQLITE_OK) {
    if (handle_ == nullptr || (code & 0xff) == SQLITE_NOMEM) {
      sqlite3_close(handle_);
      throw std::bad_alloc();
    }
    const std::string why = sqlite3_errmsg(handle_);
    sqlite3_close(handle_);
    throw HistoryError(fmt::format("{}: {}", file_, one_line(why)));
  }
  // What the file says of itself is not trusted: neither views nor triggers nor functions of its
  // schema run, and a statement ends that takes longer than its size can explain.
  for (const auto& [setting, on] : {std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                    {SQLITE_DBCONFIG_DEFENSIVE, 1}})
    sqlite3_db_config(handle_, setting, on, nullptr);
  sqlite3_hard_heap_limit64(kMostHeap);
  std::error_code none;
  const std::uintmax_t size = std::filesystem::file_size(file, none);
  spend_on(file_, none ? 0 : size, false);
  steps_left_ = kFewestSteps + (none ? 0 : static_cast<std::int64_t>(size / kStepsEach));
  sqlite3_progress_handler(
      handle_, kStep,
      [](void* self) { return --static_cast<Database*>(self)->steps_left_ < 0 ? 1 : 0; }, this);
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, patience_ms);
}

Database::~Database() { sqlite3_close(handle_); }

void Database::fail(const std::string& what) const {
  throw HistoryError(fmt::format("{}: {}", file_, one_line(what)));
}

void Database::fail(int code) const {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      fail("is locked by another process: try again once that has ended");
    case SQLITE_NOTADB:
      fail(
          "is not a history (no SQLite database): move it away, and the next run begins a new one");
    case SQLITE_CORRUPT:
      fail("is damaged: move it away, and the next run begins a new one");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      fail(fmt::format("{}: is its folder writable?", sqlite3_errmsg(handle_)));
    case SQLITE_NOMEM:
      if (errno == ENOMEM) throw std::bad_alloc();  // of malloc; SQLite's own limit says nothing
      [[fallthrough]];
    case SQLITE_INTERRUPT:
      fail(
          "takes longer, or more memory, than a history of its size can: it is damaged, or none of "
          "tidemark's");
    case SQLITE_FULL:
      fail("the disk is full");
    default:
      fail(std::string(sqlite3_errmsg(handle_)));
  }
}

void Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::number(const char* sql) {
  Statement statement(*this, sql);
  return statement.next() ? statement.integer(0) : 0;
}

Statement::Statement(Database& database, const char* sql) : database_(database) {
  const int code = sqlite3_prepare_v2(database.handle(), sql, -1, &statement_, nullptr);
  if (code != SQLITE_OK) database.fail(code);
}

bool Statement::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail(code);
  return false;
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (bytes == nullptr) return "";
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::optional<double> Statement::real(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return sqlite3_column_double(statement_, column);
}

void Statement::bind_one(int at, const std::string& value) {
  sqlite3_bind_text64(statement_, at, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}
void Statement::bind_one(int at, std::int64_t value) { sqlite3_bind_int64(statement_, at, value); }
void Statement::bind_one(int at, const std::optional<double>& value) {
  if (value) {
    sqlite3_bind_double(statement_, at, *value);  // NaN becomes NULL
  } else {
    sqlite3_bind_null(statement_, at);
  }
}

Transaction::Transaction(Database& database) : database_(database) {
  database.run("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (open_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace tidemark
