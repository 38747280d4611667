// Tables of history.sqlite, and the check of the schema of an existing file.
#pragma once

#include "reports/history/database.h"

namespace tidemark {

/// Makes the tables in an empty file; refuses a newer schema and another program's database.
void prepare_tables(Database& database);
/// Makes no tables, and refuses as prepare_tables does.
void check_tables(Database& database);

}  // namespace tidemark
