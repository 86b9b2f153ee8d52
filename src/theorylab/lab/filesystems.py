"""On which kind of file system a folder is: SQLite's locks hold on local ones only.

Linux says it in /proc/mounts. Elsewhere every folder counts as local, but for Windows' shares.
"""

import os
import re
from pathlib import Path

# Those that several machines may have mounted at once.
_SHARED = re.compile(
    r"9p|acfs|afs|beegfs|ceph|cifs|coda|davfs|fhgfs|gfs2?|glusterfs|gpfs|lustre|mfs|ncpfs|nfs4?"
    r"|ocfs2|orangefs|panfs|prl_fs|pvfs2|smb[23]|smbfs|vboxsf|virtiofs|wekafs"
)
# Of file systems in user space, those that are of this machine.
_OWN_FUSE = frozenset(("fuseblk", "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.ntfs-3g"))
_MOUNTS = Path("/proc/mounts")


def kind_of(folder: Path, mounts: str | None = None) -> str:
    r"""The kind of the file system that a folder is on, or would be; empty if nobody says.

    Args:
        folder: The folder.
        mounts: What is mounted, as /proc/mounts tells it; read from there unless given.

    Example:
        >>> kind_of(Path("/home/me/store"), "disk / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0")
        'nfs4'
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    path, longest, kind = os.path.realpath(folder), -1, ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two on one point, the later one is seen
            longest, kind = len(point), words[2]
    return kind


def is_shared(folder: Path, mounts: str | None = None) -> bool:
    r"""Whether a folder is on a file system that other machines may write to.

    Example:
        >>> is_shared(Path("/mnt/a"), "disk / ext4 rw 0 0\nme@server /mnt fuse.sshfs rw 0 0")
        True
    """
    if str(folder).startswith("\\\\"):
        return True
    kind = kind_of(folder, mounts)
    return bool(_SHARED.fullmatch(kind)) or (kind.startswith("fuse") and kind not in _OWN_FUSE)
