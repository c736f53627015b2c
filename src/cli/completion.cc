#include "cli/completion.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "cli/commands.h"

namespace fermata::cli {
namespace {

constexpr const char* kCompletionExamples = R"(Examples:
  source <(fermata completion bash)                      # in ~/.bashrc
  source <(fermata completion zsh)                       # in ~/.zshrc, after compinit
  fermata completion fish > ~/.config/fish/completions/fermata.fish)";

struct Word {
  std::string text, about;
  bool option;
};

// A command by the words that lead to it ("/plan/placement"; "" is the program
// itself) and what may follow.
struct Place {
  std::string path;
  std::vector<Word> words;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Place>& places) {
  Place place{path, {}};
  std::vector<const CLI::App*> below;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;  // hidden
    place.words.push_back({command->get_name(), command->get_description(), false});
    below.push_back(command);
  }
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      place.words.push_back({"--" + name, option->get_description(), true});
    }
  }
  places.push_back(std::move(place));
  for (const CLI::App* command : below) collect(*command, path + "/" + command->get_name(), places);
}

// In single quotes; `escape` is how the shell writes one inside of them.
std::string quoted(std::string_view text, std::string_view escape) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "'";
}

// Every place but the program itself, as patterns of a shell's `case`.
std::string patterns(const std::vector<Place>& places, std::string_view between) {
  std::string out;
  for (const Place& place : places) {
    if (place.path.empty()) continue;
    if (!out.empty()) out += between;
    out += place.path;
  }
  return out;
}

std::string bash(const std::vector<Place>& places) {
  std::string cases;
  for (const Place& place : places) {
    std::string words;
    for (const Word& word : place.words) words += (words.empty() ? "" : " ") + word.text;
    cases += fmt::format("    '{}') words='{}' ;;\n", place.path, words);
  }
  return fmt::format(R"(_fermata() {{
  local at= words= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$at/$word" in
      {}) at+="/$word" ;;
    esac
  done
  case "$at" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _fermata fermata
)",
                     patterns(places, "|"), cases);
}

std::string zsh(const std::vector<Place>& places) {
  std::string cases;
  for (const Place& place : places) {
    std::string words;
    for (const Word& word : place.words) {
      words += fmt::format("\n      {}", quoted(word.text + ":" + word.about, R"('\'')"));
    }
    cases += fmt::format("    '{}') found=({}\n    ) ;;\n", place.path, words);
  }
  return fmt::format(R"(#compdef fermata
_fermata() {{
  local at= word
  local -a found
  for word in ${{words[2,CURRENT-1]}}; do
    case "$at/$word" in
      {}) at+="/$word" ;;
    esac
  done
  case "$at" in
{}  esac
  _describe -o fermata found
  _files
}}
compdef _fermata fermata
)",
                     patterns(places, "|"), cases);
}

std::string fish(const std::vector<Place>& places) {
  std::string lines;
  for (const Place& place : places) {
    for (const Word& word : place.words) {
      const std::string form = word.option ? "-l " + word.text.substr(2) : "-f -a " + word.text;
      lines += fmt::format("complete -c fermata -n '__fermata_at \"{}\"' {} -d {}\n", place.path,
                           form, quoted(word.about, R"(\')"));
    }
  }
  return fmt::format(R"(function __fermata_at
    set -l at ''
    for word in (commandline -opc)[2..]
        switch "$at/$word"
            case {}
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end
{})",
                     patterns(places, " "), lines);
}

}  // namespace

std::string completion_script(const CLI::App& root, Shell shell) {
  std::vector<Place> places;
  collect(root, "", places);
  switch (shell) {
    case Shell::kBash:
      return bash(places);
    case Shell::kZsh:
      return zsh(places);
    case Shell::kFish:
      return fish(places);
  }
  return {};
}

void add_completion(CLI::App& app, int&) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands.");
  command->footer(kCompletionExamples);
  command->add_option("SHELL", *shell, "Shell of the script")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    std::cout << completion_script(app, *shell == "bash"  ? Shell::kBash
                                        : *shell == "zsh" ? Shell::kZsh
                                                          : Shell::kFish);
  });
}

}  // namespace fermata::cli
