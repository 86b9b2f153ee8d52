"""`theorylab export` and `theorylab import`: outcomes as one archive."""

from pathlib import Path

from theorylab.experiments.tree import Tree

from .commands import Parsed
from .finding import counted, found_in_store
from .requests import store_path
from .usage import Usage, notice


def export_outcomes(tree: Tree, parsed: Parsed) -> int:
    """Write outcomes to an archive; 1 if damaged ones were left out."""
    file, root = _file(parsed, "export"), store_path(parsed)
    if not root.is_dir():
        raise Usage(f"export needs a store, there is none in {root}.")
    if not file.parent.is_dir():
        raise Usage(f"export needs a folder for its file, there is none in {file.parent}.")

    from theorylab.lab import Store
    from theorylab.lab.archive import export

    store = Store(root)
    store.finish()
    if {"--where", "--experiment"} & set(parsed.options):
        found = found_in_store(tree, parsed)
        folders = [root / hit.experiment / hit.key for hit in found]
    else:
        folders = store.folders()
    done = export(store, folders, file, notice)
    print(file)
    notice(f"{counted(done.outcomes)}, {done.size} bytes ({done.size / 1e6:.1f} MB).")
    return 1 if done.left_out else 0


def import_outcomes(parsed: Parsed) -> int:
    """Bring the outcomes of an archive into the store."""
    file = _file(parsed, "import")

    from theorylab.lab import Store
    from theorylab.lab.archive import import_archive

    done = import_archive(Store(store_path(parsed)), file)
    kept = f"; {done.kept} there already, kept as it was" if done.kept else ""
    notice(f"{counted(done.added)} came into the store{kept}.")
    return 0


def _file(parsed: Parsed, command: str) -> Path:
    """The file that is named."""
    if len(parsed.words) != 1 or not parsed.words[0]:
        got = " ".join(parsed.words) or "none"
        raise Usage(f"{command} needs the name of one file, got {got}.")
    return Path(parsed.words[0]).expanduser()
