// Fields of the record of `tidemark bisect`; fields.h says how they are named.
#pragma once

#include "harness/record/bisect.h"
#include "harness/record/fit_fields.h"

namespace tidemark {

void visit(BisectVersion& x, auto& f) {
  f.title("bisect_version", "a version of the package, or a commit");
  f("version", x.version, meaning::name);
  f.optional("title", x.title);
  f("state", x.state, meaning::name);
  f.optional("why", x.why);
  f.optional("lock", x.lock);
  f("changed", x.changed);
  f("packages", x.packages);
  f.optional("run", x.run);
}

void visit(BisectChange& x, auto& f) {
  f.title("bisect_change", "two versions that ran and whose peaks differ, with none between them");
  f("from", x.from, meaning::name);
  f("to", x.to, meaning::name);
  f("between", x.between, meaning::count, "versions between them, all of which were refused");
  f("because", x.because);
  f("reserved", x.reserved, meaning::bytes);
  f("allocated", x.allocated, meaning::bytes);
  f("active", x.active, meaning::bytes, "the sum of the parts");
  f("parts", x.parts);
}

void visit(BisectRecord& x, auto& f) {
  f.title("bisect");
  f("program", x.program);
  f("run", x.run);
  f("package", x.package, meaning::name);
  f("repository", x.repository);
  f("fixed", x.fixed);
  f("grew", x.grew);
  f("versions", x.versions);
  f("changes", x.changes);
  f("notes", x.notes);
}

}  // namespace tidemark
