// tidemark completion bash|zsh|fish: prints a script that completes commands and flags. The words
// are those of the command's own help, so that no list is kept twice.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "harness/cli/files.h"
#include "harness/print.h"

namespace tidemark {
namespace {

constexpr const char* kBash = R"(_tidemark() {
  local current=${COMP_WORDS[COMP_CWORD]} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=$(tidemark --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')
  else
    words=$(tidemark "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tidemark tidemark
)";

constexpr const char* kZsh = "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n";

constexpr const char* kFish =
    R"fish(complete -c tidemark -n __fish_use_subcommand -f -a "(tidemark --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')"
complete -c tidemark -n 'not __fish_use_subcommand' -a "(tidemark (commandline -opc)[2] --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)"
)fish";

}  // namespace

void add_completion(CLI::App& app, Act& act) {
  auto* command = app.add_subcommand("completion", "print the completion of bash, zsh or fish");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "examples:\n"
      "  source <(tidemark completion bash)     # in ~/.bashrc; of zsh in ~/.zshrc\n"
      "  tidemark completion fish | source      # in ~/.config/fish/config.fish\n"
      "exit codes: 0 printed, 2 usage");
  command->callback([shell, &act] {
    act = [shell] {
      print(stdout, "{}",
            *shell == "bash"  ? std::string(kBash)
            : *shell == "zsh" ? std::string(kZsh) + kBash
                              : std::string(kFish));
      return 0;
    };
  });
}

}  // namespace tidemark
