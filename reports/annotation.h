// Lines that GitHub Actions and its like (Forgejo, Gitea) show beside a line of the program. GitLab
// shows them in the job's log.
#pragma once

#include <string>

namespace tidemark {

struct Annotation {
  std::string title, message;
  std::string file;  // below the current folder; empty: of no line
  int line = 0;
};

/// True in a job of GitHub Actions (GITHUB_ACTIONS) or GitLab CI (GITLAB_CI).
bool in_ci();

/// "::error title=...::..." with everything escaped that would end it.
std::string annotation_line(const Annotation& annotation);

/// The annotation at a line of Python that ends `text`, as in "activations, forward train.py:61";
/// without a file where there is none.
Annotation annotation_at(const std::string& text, std::string title, std::string message);

}  // namespace tidemark
