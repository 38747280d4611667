// The tables, and who may write them.
#pragma once

#include "reports/history/database.h"

namespace tidemark {

/// Makes the tables in an empty file; refuses a newer schema and another program's database.
void prepare_tables(Database& database);
/// Only refuses.
void check_tables(Database& database);

}  // namespace tidemark
