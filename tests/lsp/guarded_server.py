"""`lakesql lsp` in a process that notes whatever the server must not do:
guarded_server.py NOTES [ARGUMENT]..."""

from __future__ import annotations

import os
import sys

NOTES = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
FORBIDDEN = (
    *(
        "socket.connect",
        "socket.bind",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.sendto",
    ),
    *(
        "subprocess.Popen",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
    ),
    *(
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.utime",
    ),
    *("shutil.copyfile", "shutil.move", "shutil.rmtree", "os.chmod", "os.chown"),
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def look(event: str, arguments: tuple[object, ...]) -> None:
    if event in FORBIDDEN:
        os.write(NOTES, f"{event} {arguments!r}\n".encode(errors="replace"))
    if event == "open":
        path, mode, flags = arguments
        writes = isinstance(flags, int) and flags & WRITING
        if writes and path != os.devnull:
            os.write(NOTES, f"open {path!r} {mode!r}\n".encode(errors="replace"))


sys.addaudithook(look)

from lakesql.cli.main import main  # noqa: E402

main(["lsp", *sys.argv[2:]])
