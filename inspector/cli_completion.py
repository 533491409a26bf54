"""The command `completion`: what a shell needs to complete commands and options after Tab.

There is no program of our own on PATH, so that the script defines a function `inspector` that calls `python -m
inspector` with the Python that printed it; completions are for that name. What completes is cli.py's app itself.
"""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from inspector.cli import COMPLETE_VARIABLE, _bad_option, _run, app

_BASH = """inspector() { PYTHON -m inspector "$@"; }
_inspector_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD VARIABLE=complete_bash PYTHON -m inspector ) )
}
complete -o default -F _inspector_completion inspector
"""
_ZSH = """inspector() { PYTHON -m inspector "$@"; }
_inspector_completion() {
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" VARIABLE=complete_zsh PYTHON -m inspector)
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _inspector_completion inspector
"""
_FISH = """function inspector; PYTHON -m inspector $argv; end
function _inspector_completion
    env VARIABLE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] _TYPER_COMPLETE_ARGS=(commandline -cp) PYTHON -m inspector
end
complete --command inspector --no-files --arguments "(_inspector_completion get-args)" --condition "_inspector_completion is-args"
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@app.command(name="completion", epilog='Example: eval "$(python -m inspector completion bash)"')
def completion_command(
    shell: Annotated[str, typer.Argument(metavar="|".join(SCRIPTS), help="Which shell it is for.")],
) -> None:
    """Print a script for a shell: the short name `inspector`, and Tab after it."""

    def work() -> str:
        if shell not in SCRIPTS:
            raise _bad_option("SHELL", f"{shell!r} is none of {', '.join(SCRIPTS)}", "write bash, zsh or fish")
        return SCRIPTS[shell].replace("PYTHON", shlex.quote(sys.executable)).replace("VARIABLE", COMPLETE_VARIABLE)

    sys.stdout.write(_run(work, False, schema=""))
