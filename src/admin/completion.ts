// completion bash|zsh|fish: prints a script by which a shell completes commands, options and their choices.
import { Argument, Command } from 'commander'
import type { Terminal } from './terminal/terminal.ts'

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript }
type Shell = keyof typeof SCRIPTS

const NAME = 'login-service'
/** `login-admin` is its name on a machine that was set up by docs/installing.md. */
const NAMES = `${NAME} login-admin`

/** What can follow the command `at`, after a certain word or (`*`) after any other. */
type Rule = { at: string; after: string; choices: string[] }

export function completionCommand(program: Command, terminal: Terminal): Command {
  return new Command('completion')
    .description('print a script that completes commands and options in a shell')
    .addArgument(new Argument('<shell>').choices(Object.keys(SCRIPTS)))
    .action((shell: Shell) => terminal.print(SCRIPTS[shell](rulesOf(program, NAME))))
}

/** A rule comes before the more general ones. */
function rulesOf(command: Command, at: string): Rule[] {
  const help = command.createHelp()
  const options = help.visibleOptions(command)
  const choices = [
    ...help.visibleCommands(command).map(inner => inner.name()),
    ...command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
    ...options.flatMap(({ long }) => long ?? []),
  ]
  return [
    ...options
      .filter(({ required }) => required)
      .map(({ long, argChoices = [] }) => ({ at, after: long ?? '', choices: argChoices })),
    { at, after: '*', choices },
    ...command.commands.flatMap(inner => rulesOf(inner, `${at} ${inner.name()}`)),
  ]
}

/** The names of all commands, without the program itself. */
const commandsOf = (rules: Rule[], separator: string) =>
  [...new Set(rules.map(({ at }) => `'${at}'`))].slice(1).join(separator)

/** If no choice fits, bash completes the name of a file. */
function bashScript(rules: Rule[]): string {
  const patternOf = ({ at, after }: Rule) => (after === '*' ? `'${at}|'*` : `'${at}|${after}'`)
  return `_login_service() {
  local at=${NAME} word= choices=
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "$at $word" in
      ${commandsOf(rules, '|')}) at="$at $word" ;;
    esac
  done
  case "$at|$word" in
${rules.map(rule => `    ${patternOf(rule)}) choices='${rule.choices.join(' ')}' ;;\n`).join('')}  esac
  COMPREPLY=($(compgen -W "$choices" -- "$2"))
}
complete -o default -F _login_service ${NAMES}
`
}

function zshScript(rules: Rule[]): string {
  return `autoload -U +X compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
${bashScript(rules)}`
}

function fishScript(rules: Rule[]): string {
  return `function __login_service
    set -l typed (commandline -opc)
    set -l at ${NAME}
    set -l word ''
    for word in $typed[2..]
        switch "$at $word"
            case ${commandsOf(rules, ' ')}
                set at "$at $word"
        end
    end
    set -l choices
    switch "$at|$word"
${rules.map(({ at, after, choices }) => `        case '${at}|${after}'\n            set choices ${choices.join(' ')}\n`).join('')}    end
    set -l fitting (string match -- (commandline -ct)'*' $choices)
    if test -n "$fitting"
        printf '%s\\n' $fitting
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -f ${NAMES.replace(/\S+/g, '-c $&')} -a '(__login_service)'
`
}
