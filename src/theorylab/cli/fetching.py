"""`theorylab fetch NAME…`: download images into the cache, so that runs need no network."""

from theorylab.folders import cache_folder
from theorylab.lab.requests import nearest

from .commands import IMAGES, Parsed
from .usage import Usage


def fetch(parsed: Parsed) -> int:
    """Download what is named, unless it is in the cache already."""
    if not parsed.words:
        raise Usage(f"fetch needs one of {', '.join(IMAGES)}, got none.")
    for name in parsed.words:
        if name not in IMAGES:
            offer = nearest(name, IMAGES)
            raise Usage(f"fetch must be given one of {', '.join(IMAGES)}, got {name!r}.{offer}")

    from theorylab.data import downloads  # heavy, and not needed to complain

    for name in parsed.words:
        images = downloads.download(name)
        print(f"{name}: {len(images['labels'])} images in {cache_folder()}")
    return 0
