"""Shell completion: a script for each shell, which asks `theorylab _complete` for the words.

theorylab completion bash >> ~/.bashrc
theorylab completion zsh > "${fpath[1]}/_theorylab"
theorylab completion fish > ~/.config/fish/completions/theorylab.fish
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from theorylab.experiments.entry import Entry
from theorylab.experiments.reader import TreeError
from theorylab.experiments.tree import Tree

from .commands import COMMANDS, IMAGES, SHELLS, Command, Parsed
from .listing import KEYS
from .usage import Usage

_SCRIPTS = {
    "bash": """\
_theorylab() {
    local IFS=$'\\n'
    COMPREPLY=($(theorylab _complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _theorylab theorylab
""",
    "zsh": """\
#compdef theorylab
_theorylab() {
    local -a candidates
    candidates=(${(f)"$(theorylab _complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#candidates )); then
        compadd -- $candidates
    else
        _files
    fi
}
if [[ $funcstack[1] == _theorylab ]]; then
    _theorylab
else
    compdef _theorylab theorylab
fi
""",
    "fish": """\
function __theorylab_complete
    set -l words (commandline -opc) (commandline -ct)
    theorylab _complete $words[2..-1] 2>/dev/null
end
complete -c theorylab -f -a '(__theorylab_complete)'
complete -c theorylab -l out -r -F
complete -c theorylab -l to -r -F
complete -c theorylab -l page -r -F
complete -c theorylab -l save -r -F
complete -c theorylab -n '__fish_seen_subcommand_from examine export import' -F
complete -c theorylab -l csv -r -F
complete -c theorylab -l parquet -r -F
complete -c theorylab -n '__fish_seen_subcommand_from examine' -F
""",
}


def print_script(parsed: Parsed) -> int:
    """`theorylab completion SHELL`."""
    if len(parsed.words) != 1 or parsed.words[0] not in SHELLS:
        got = " ".join(parsed.words) or "none"
        raise Usage(f"completion needs one of {', '.join(SHELLS)}, got {got}.")
    print(_SCRIPTS[parsed.words[0]], end="")
    return 0


def print_candidates(tree: Tree, words: Sequence[str]) -> int:
    """`theorylab _complete WORDS`: every way to go on with the last word."""
    try:
        found = candidates(tree, list(words) or [""])
    except (TreeError, KeyError):
        return 0  # no place to complain
    print("".join(f"{word}\n" for word in found), end="")
    return 0


def candidates(tree: Tree, words: list[str]) -> list[str]:
    """The words that may stand where the last one stands; none where a file is meant.

    Args:
        tree: The experiments.
        words: What stands behind `theorylab`; the last one may be unfinished or empty.
    """
    *before, current = words
    if not before:
        choices: Iterable[str] = [*(command.name for command in COMMANDS), "--help", "--version"]
    else:
        command = next((each for each in COMMANDS if each.name == before[0]), None)
        choices = _after(tree, command, before[1:], current) if command else ()
    return sorted(choice for choice in choices if choice.startswith(current))


def _after(tree: Tree, command: Command, before: list[str], current: str) -> Iterable[str]:
    """What may follow inside a command."""
    names = tree.names()
    said = [tree.renames.get(word, word) for word in before]
    entries = [tree.entry(word) for word in said if word in names] if command.takes_fields else []
    values = {option.flag: option.choices for option in command.options if option.value}
    values |= _field_values(entries)
    last = before[-1] if before else ""
    if "--preset" in values and len(entries) == 1:
        values["--preset"] = tuple(entries[0].presets)
    if command.name in ("sweep", "plot"):
        values |= _of_sweeps(entries, before)
    if last in values:
        named = {"--concept": _concepts(names), "--source": KEYS, "--experiment": names}
        return named.get(last, values[last])
    if current.startswith("-"):
        flags = [option.flag for option in command.options]
        return [*flags, *_field_values(entries), "--help"]
    if command.name in ("completion", "fetch"):
        return SHELLS if command.name == "completion" else IMAGES
    if command.name == "plot":
        return _of_sweeps((), before)["plot"]
    return names if "NAME" in command.words else ()


def _of_sweeps(entries: Sequence[Entry], before: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What may follow the options of `sweep` and `plot`: fields, and remembered sweeps."""
    from theorylab.folders import store_folder
    from theorylab.lab.sweeps.names import names

    out = before[before.index("--out") + 1 :][:1] if "--out" in before else []
    known = tuple(names(Path(out[0]).expanduser() if out else store_folder()))
    fields = tuple(f"{field.name}=" for entry in entries for field in entry.fields)
    return {"--over": fields, "--resume": known, "plot": known}


def _field_values(entries: Sequence[Entry]) -> dict[str, tuple[str, ...]]:
    """The flags of the fields, with what may follow them where that is a list."""
    fields = [field for entry in entries for field in entry.fields]
    truth = {"bool": ("true", "false")}
    return {field.flag: field.choices or truth.get(field.type, ()) for field in fields}


def _concepts(names: Iterable[str]) -> tuple[str, ...]:
    """The folders of experiments: rooms, and themes in them."""
    parts = [name.split("/") for name in names]
    return tuple(sorted({"/".join(each[:n]) for each in parts for n in range(1, len(each))}))
