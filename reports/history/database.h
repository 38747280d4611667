// The part of SQLite that the history needs: statements that are finalised, and errors that name
// their place.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

namespace tidemark {

/// One line: the file, what SQLite said, what to do.
struct HistoryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Database {
 public:
  enum class Open { read, write };
  /// Waits `patience_ms` for other processes. `write` makes the file where there is none.
  Database(const std::filesystem::path& file, Open how, int patience_ms);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const char* sql);
  std::int64_t number(const char* sql);  // of the first row, 0 where there is none
  std::int64_t last_id() const { return sqlite3_last_insert_rowid(handle_); }
  std::int64_t changes() const { return sqlite3_changes64(handle_); }
  [[noreturn]] void fail(int code) const;
  [[noreturn]] void fail(const std::string& what) const;
  sqlite3* handle() const { return handle_; }

 private:
  sqlite3* handle_ = nullptr;
  std::string file_;
  std::int64_t steps_left_ = 0;  // of kStep instructions, before it is taken to be damaged
};

class Statement {
 public:
  Statement(Database& database, const char* sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// From the first placeholder on.
  template <class... Values>
  Statement& bind(const Values&... values) {
    sqlite3_reset(statement_);
    int at = 0;
    (bind_one(++at, values), ...);
    return *this;
  }
  bool next();  // false after the last row
  std::string text(int column) const;
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::optional<double> real(int column) const;  // none: NULL

 private:
  void bind_one(int at, const std::string& value);
  void bind_one(int at, const char* value) { bind_one(at, std::string(value)); }
  void bind_one(int at, std::int64_t value);
  void bind_one(int at, int value) { bind_one(at, std::int64_t{value}); }
  void bind_one(int at, const std::optional<double>& value);
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

/// Makes the tables in an empty file; refuses a newer schema and another program's database.
void prepare_tables(Database& database);
/// Only refuses.
void check_tables(Database& database);

/// All or nothing; takes the write lock at once, so that it waits here and not half-way.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace tidemark
