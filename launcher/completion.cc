// Writes the bash completion script. The flags are written into it once, at build time, so that pressing Tab starts no
// hvdrun.

#include "launcher/completion.h"

namespace rueda::core::launcher {

std::string bash_completion(const std::vector<std::string>& flags, const std::map<std::string, std::string>& choices) {
  std::string words, cases;
  for (const auto& flag : flags) words += (words.empty() ? "" : " ") + flag;
  for (const auto& [flag, values] : choices) {
    cases += "    " + flag + ") COMPREPLY=($(compgen -W '" + values + "' -- \"$word\")); return;;\n";
  }
  return "# bash completion of hvdrun\n"
         "_hvdrun() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  case $before in\n"
         "    --hostfile|-hostfile) COMPREPLY=($(compgen -f -- \"$word\")); return;;\n"
         "    --output-filename) COMPREPLY=($(compgen -d -- \"$word\")); return;;\n"
         "    --completion) COMPREPLY=($(compgen -W bash -- \"$word\")); return;;\n" +
         cases +
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         words +
         "' -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -c -- \"$word\") $(compgen -f -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -F _hvdrun hvdrun\n";
}

}  // namespace rueda::core::launcher
