"""The commands and their options: one table, from which come parsing, help and completion."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

from theorylab.experiments.entry import PRESETS, Entry
from theorylab.fields import ImageSet
from theorylab.lab.requests import nearest
from theorylab.sources import DOCUMENTS

from .usage import Usage

RECORDED = ("default", "paper")  # presets that can be recorded


@dataclass(frozen=True)
class Option:
    """A flag of a command."""

    flag: str
    value: str  # the name of what follows it; empty for a switch
    help: str
    choices: tuple[str, ...] = ()
    repeats: bool = False  # given several times, its values stand on lines of their own


@dataclass(frozen=True)
class Command:
    """What stands behind `theorylab`."""

    name: str
    words: str  # the names of what it takes besides options
    help: str
    options: tuple[Option, ...] = ()
    takes_fields: bool = False


class Parsed(NamedTuple):
    """A command line, taken apart."""

    words: list[str]
    options: dict[str, str]  # flag ─► value; a switch has the value ""
    fields: dict[str, str]  # field of Config ─► value, as text


_JSON = Option("--json", "", "Print JSON.")
_PRESET = Option("--preset", "PRESET", "smoke, default or paper: how large it is.", PRESETS)
_OUT = Option("--out", "DIR", "The store, instead of the one in the user's data folder.")
_FORCE = Option("--force", "", "Run even what is in the store already.")
SHELLS = ("bash", "zsh", "fish")
ENGINES = ("local", "dask")
LOSSES = ("cross_entropy", "mse", "logistic")
OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop")
IMAGES: tuple[str, ...] = get_args(ImageSet)[2:]  # the first two come with the install

COMMANDS = (
    Command(
        "list",
        "",
        "List the experiments.",
        (
            _JSON,
            Option("--concept", "CONCEPT", "Only those about one concept, or one folder of it."),
            Option("--source", "KEY", "Only those with claims from one document: see below."),
            Option("--search", "WORDS", "Only those that have all the words, in title or claims."),
            Option(
                "--by",
                "system",
                "List what of the documents is tested, by model, algorithm or bound.",
                ("system",),
            ),
        ),
    ),
    Command("show", "NAME", "Show what an experiment claims and which fields it has.", (_JSON,)),
    Command(
        "run",
        "NAME…",
        "Run experiments and judge their claims.",
        (_PRESET, _OUT, _JSON, _FORCE),
        takes_fields=True,
    ),
    Command(
        "sweep",
        "NAME",
        "Run an experiment at many settings; what is in the store already is read.",
        (
            Option(
                "--over",
                "FIELD=AXIS",
                "A field that varies; may be given again: see below.",
                repeats=True,
            ),
            Option("--seeds", "N", "So many seeds for each setting."),
            _PRESET,
            Option("--engine", "ENGINE", "local (this machine) or dask (a cluster).", ENGINES),
            Option("--workers", "N", "How many processes; 1 is this one."),
            Option("--scheduler", "ADDRESS", "Of Dask, if one runs already: tcp://HOST:PORT."),
            Option(
                "--slurm", "NAME=VALUE,…", "Start jobs of Slurm as workers, which ask for this."
            ),
            Option("--as", "SWEEP", "Under which the store remembers it."),
            Option("--resume", "SWEEP", "Ask for a sweep that the store remembers."),
            Option("--draw", "N", "The seed of values that are drawn at random; 0 unless given."),
            Option("--figures", "", "Draw each setting; else run draws it when it is asked for."),
            Option("--csv", "FILE", "Write the table as CSV."),
            Option("--parquet", "FILE", "Write the table as Parquet (needs pyarrow)."),
            Option("--dry-run", "", "Run nothing, only say what would be."),
            _OUT,
            _JSON,
        ),
        takes_fields=True,
    ),
    Command(
        "plot",
        "SWEEP",
        "Draw what a sweep has measured: curves, a scaling plot or a phase diagram.",
        (
            Option("--x", "COLUMN", "What varies along the horizontal axis."),
            Option("--y", "COLUMN", "What is drawn above it; a field that varies: see --hue."),
            Option("--hue", "COLUMN", "A curve for each value; colours, if x and y both vary."),
            Option("--fit", "", "Print the power law y = c x^p, with the interval of p."),
            Option("--to", "FILE", "The figure (svg, png, pdf); SWEEP.svg unless told otherwise."),
            _OUT,
        ),
    ),
    Command(
        "record",
        "NAME…",
        "Run experiments on seeds drawn at random, and record what they find in the checkout.",
        (
            Option("--preset", "PRESET", "default or paper: how large it is.", RECORDED),
            Option("--repeat", "N", "On how many further seeds; 0 unless told otherwise."),
            Option("--more", "N", "Add so many seeds to the record that is there."),
            _OUT,
        ),
    ),
    Command(
        "report",
        "",
        "Write the atlas, a site of all experiments and documents with what was found.",
        (
            _OUT,
            Option("--to", "FILE", "Its folder, or a name.html for one page of the store."),
        ),
    ),
    Command(
        "examine",
        "FILE",
        "Say what theory says about a network of yours, that a Python file defines.",
        (
            _JSON,
            Option("--page", "FILE", "Write the card as one HTML page, with figures."),
            Option("--save", "FILE", "Keep the card; theorylab.checkup.load reads it."),
            Option("--only", "NAMES", "Only these rows, separated by commas."),
            Option("--force", "NAMES", "Compute these rows however long they take."),
            Option("--budget", "SECONDS", "For all rows together, compiling aside."),
            Option("--loss", "NAME", "The loss that it is trained with.", LOSSES),
            Option("--learning-rate", "RATE", "That it is trained with."),
            Option("--optimizer", "NAME", "That it is trained with.", OPTIMIZERS),
            Option("--momentum", "NUMBER", "Of momentum and nesterov; β₁ of Adam."),
            Option("--batch-size", "N", "Of the batches that it is trained on."),
        ),
    ),
    Command(
        "tour",
        "",
        "Run the first phenomena, one after the other, and write a report.",
        (_PRESET, _OUT, _FORCE),
    ),
    Command(
        "forget",
        "[NAME…]",
        "Delete outcomes from the store: all of an experiment, or what the options say.",
        (
            Option("--damaged", "", "Those that cannot be read."),
            Option("--old", "", "Those of other code or libraries, which no run reads any more."),
            Option("--dry-run", "", "Delete nothing, only say what would be."),
            _OUT,
        ),
    ),
    Command(
        "find",
        "",
        "Find outcomes in the store by what they are and by what was found.",
        (
            Option("--experiment", "NAME", "Only those of an experiment, or of a folder of them."),
            Option("--where", "TEXT", "What must hold: \"width>=256 and verdict='refuted'\"."),
            _JSON,
            Option("--csv", "", "Print a table for other programs."),
            Option("--limit", "N", "At most so many."),
            Option("--rebuild", "", "Read all files anew, and make a new index."),
            _OUT,
        ),
    ),
    Command("verify", "", "Compare every file in the store with its checksum.", (_JSON, _OUT)),
    Command(
        "gc",
        "",
        "Say what of the store and the compiled programs nobody can read any more, and remove it.",
        (
            Option("--yes", "", "Remove it; else it is only said."),
            Option("--days", "N", "Programs not used for so many days; 30 unless told otherwise."),
            _JSON,
            _OUT,
        ),
    ),
    Command(
        "export",
        "FILE",
        "Write outcomes to one archive.",
        (
            Option("--experiment", "NAME", "Only those of an experiment, or of a folder of them."),
            Option("--where", "TEXT", "Only those that fit, as in theorylab find."),
            _OUT,
        ),
    ),
    Command(
        "import", "FILE", "Bring the outcomes of an archive into the store, all checked.", (_OUT,)
    ),
    Command("completion", "SHELL", "Print the completion script for bash, zsh or fish."),
    Command("fetch", "IMAGES…", f"Download images into the cache: {', '.join(IMAGES)}."),
)


FILE_DEFINES = """\
The file defines names: apply, params, x and y, and whatever else is known of the network, such as
loss, learning_rate, optimizer, batch_size, initial_params, x_test and y_test; or network, x and y,
with a module of PyTorch, Flax or Equinox (of Flax Linen its variables too, of Equinox its state);
or a function examine() that returns them as a dict. It is run as it stands. An option goes before
what the file says."""


WHERE_SAYS = """\
--where compares names with numbers, texts in quotes, true or false, by = != < <= > >= ~ (contains)
and in (…, …), joined by and, or, not and parentheses. The names:

  experiment, key, preset, seconds, date (UTC)            of an outcome
  value, low, high, verdict, expected, as_expected,       of one of its findings: an outcome fits if
  claim, kind, source, system, place                      one of them meets all that is said of them
  any other name, or config.NAME                          a field of the config, one entry of a list

any(…), every(…) and none(…) ask about findings by themselves: none(verdict='refuted')."""


AXES = """\
An axis is written --over width=64,128,256 (these values), ratio=1:5:0.25 (from 1 to 5 in steps),
rate=log:1e-3:1:9 (9 values, evenly spaced in the logarithm), rate=random:0:1:20 (20 drawn at
random) or rate=sobol:0:1:32 (drawn evenly; all such axes are one sequence). Lists and ranges are
multiplied with each other.
--slurm takes partition, account, walltime, memory, cores and interface, as in partition=cpu."""


def command_named(name: str) -> Command:
    """Find a command."""
    for command in COMMANDS:
        if command.name == name:
            return command
    names = [command.name for command in COMMANDS]
    offer = nearest(name, names) or f" It takes one of {', '.join(names)}."
    raise Usage(f"theorylab has no command {name!r}.{offer}")


def parse(command: Command, arguments: Sequence[str]) -> Parsed:
    """Take a command line apart: words, the command's options, fields of experiments.

    Example:
        >>> parse(command_named("run"), ["dynamics/catapult", "--num-seeds=6", "--ratio", "-1"])
        Parsed(words=['dynamics/catapult'], options={}, fields={'num_seeds': '6', 'ratio': '-1'})
    """
    parsed = Parsed([], {}, {})
    options = {option.flag: option for option in command.options}
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-") or argument == "-":
            parsed.words.append(argument)
            continue
        flag, equals, value = argument.partition("=")
        option = options.get(flag)
        if option is None and not (command.takes_fields and flag.startswith("--")):
            raise Usage(f"{command.name} has no option {flag}.{nearest(flag, options)}")
        if option and not option.value:
            if equals:
                raise Usage(f"{flag} takes no value, got {value!r}.")
        elif not equals:
            value = _next_value(flag, remaining)
        if option is None:
            parsed.fields[flag.removeprefix("--").replace("-", "_")] = value
        else:
            value = _checked(option, value)
            again = option.repeats and flag in parsed.options
            parsed.options[flag] = f"{parsed.options[flag]}\n{value}" if again else value
    return parsed


def overview() -> str:
    """The text of `theorylab --help`."""
    rows = [(f"{command.name} {command.words}", command.help) for command in COMMANDS]
    return f"""\
theorylab: a laboratory for the theory of deep learning.

usage: theorylab COMMAND …

{_columns(rows)}

theorylab COMMAND --help says more; theorylab --version says which version this is.

The environment: THEORYLAB_STORE and THEORYLAB_CACHE name the folders for outcomes and for what can
be made anew; NO_COLOR turns colours off.
Exit codes: 0 every verdict is as expected, 1 one is not (or a figure failed; of verify and export:
an outcome is damaged), 2 bad usage, 3 a run failed (of a sweep: a setting; of examine: a row),
130 interrupted.
"""


def help_for(command: Command, entries: Sequence[Entry]) -> str:
    """The text of `theorylab COMMAND --help`, with the fields of the experiments that are named."""
    options = [(f"{option.flag} {option.value}", option.help) for option in command.options]
    options.append(("--help", "Print this."))
    fields = " [--FIELD VALUE]" if command.takes_fields else ""
    words = f" {command.words}" if command.words else ""
    text = f"{command.help}\n\nusage: theorylab {command.name}{words} [OPTIONS]{fields}\n\n"
    text += _columns(options) + "\n"
    for entry in entries:
        rows = [(f"{field.flag} {shown(field.default)}", field.help) for field in entry.fields]
        text += f"\nThe fields of {entry.name}, with their defaults:\n\n{_columns(rows)}\n"
    if any(option.flag == "--source" for option in command.options):
        text += f"\nThe documents:\n\n{_columns(list(DOCUMENTS.items()))}\n"
    if command.name == "examine":
        text += f"\n{FILE_DEFINES}\n"
    if any(option.flag == "--where" for option in command.options):
        text += f"\n{WHERE_SAYS}\n"
    if command.name == "sweep":
        text += f"\n{AXES}\n"
    if command.takes_fields and not entries:
        text += "\nThe fields of an experiment: theorylab show NAME.\n"
        text += "The path of a .py file is a name too; the store calls its experiment own/<stem>.\n"
    return text


def shown(value: object) -> str:
    """Write a value as the command line takes it.

    Example:
        >>> shown((1.0, 3.0)), shown(()), shown(True), shown("relu")
        ('1.0,3.0', '()', 'true', 'relu')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) and value else str(value)


def _next_value(flag: str, remaining: Iterator[str]) -> str:
    value = next(remaining, None)
    if value is None or value.startswith("--"):
        got = "nothing" if value is None else value
        raise Usage(f"{flag} needs a value, got {got}.")
    return value


def _checked(option: Option, value: str) -> str:
    if option.choices and value not in option.choices:
        raise Usage(f"{option.flag} must be one of {', '.join(option.choices)}, got {value!r}.")
    if option.value in ("DIR", "FILE") and not value:
        raise Usage(f"{option.flag} needs a path, got an empty one.")
    return os.path.expanduser(value) if option.value in ("DIR", "FILE") else value


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns; a long first entry gets a line of its own."""
    width = max(len(first) for first, _ in rows if len(first) < 32) + 2
    lines = []
    for first, second in rows:
        if len(first) >= width:
            lines.append(f"  {first}")
            first = ""
        lines.append(f"  {first:{width}}{second}")
    return "\n".join(line.rstrip() for line in lines)
