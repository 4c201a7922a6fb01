"""What runs inside an interpreter: it takes cells of Python one by one and runs them in one
namespace, as a notebook does. The server is at the other end of two pipes. A request there is a
length (4 bytes, big endian), 16 bytes that nobody can guess, and the source of a cell; the reply is
the same 16 bytes behind their length. What a cell prints goes to descriptors 1 and 2 and is the
server's business. Under WebAssembly requests come from descriptor 0, and to read the next one is
the reply.

A cell can change everything in here. It can harm itself by that and nobody else.
Python 3.8 and later, the standard library alone.
"""
import ast
import builtins
import importlib.machinery
import io
import linecache
import os
import sys
import traceback
import types

REQUESTS, REPLIES = (0, None) if sys.platform == "wasi" else (3, 4)
RUNNER = "<ossian>"  # the name of this file in tracebacks, in which it is not shown


def read(count, pull=os.read):
    """Return exactly so many bytes of the requests; the end of them ends the interpreter."""
    parts = []
    while count:
        part = pull(REQUESTS, min(count, 1 << 16))
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def reply(nonce, push=os.write):
    if REPLIES is not None:
        push(REPLIES, len(nonce).to_bytes(4, "big") + nonce)


def flush():
    """Let nothing that was printed stay behind, in Python's buffers or in those of C."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    if "ctypes" in sys.modules:
        try:
            sys.modules["ctypes"].CDLL(None).fflush(None)
        except Exception:
            pass


def compiled(source, name):
    """Return the code of a cell: what is executed, and the expression at its end or None."""
    top_level_await = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
    tree = ast.parse(source, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)
    body = compile(tree, name, "exec", flags=top_level_await, dont_inherit=True)
    if last is not None:
        last = compile(last, name, "eval", flags=top_level_await, dont_inherit=True)
    return body, last


def evaluate(code, namespace):
    """Run code; where it waits for something at top level, in an event loop."""
    if code.co_flags & 0x80:  # inspect.CO_COROUTINE
        import asyncio

        async def waited():
            return await eval(code, namespace)

        return asyncio.run(waited())
    return eval(code, namespace)


def trimmed(report):
    """Take what this file did out of a traceback and of those that led to it."""
    seen = []
    while report is not None and all(report is not other for other in seen):
        seen.append(report)
        report.stack[:] = [frame for frame in report.stack if frame.filename != RUNNER]
        for inner in getattr(report, "exceptions", None) or ():
            trimmed(inner)
        if report.__cause__ is not None:
            trimmed(report.__cause__)
        report = report.__context__


def show(error):
    """Print a traceback as Python does."""
    try:
        report = traceback.TracebackException(type(error), error, error.__traceback__)
        trimmed(report)
        sys.stderr.write("".join(report.format()))
    except BaseException:  # no memory for it, or the exception cannot be printed
        try:
            os.write(2, (type(error).__name__ + "\n").encode())
        except Exception:
            pass


def run(source, number, namespace):
    """Run a cell."""
    name = "<cell %d>" % number
    linecache.cache[name] = (len(source), None, (source + "\n").splitlines(True), name)
    try:
        body, last = compiled(source, name)
    except BaseException as error:
        show(error.with_traceback(None))  # the place is in the error
        return
    try:
        evaluate(body, namespace)
        if last is not None:
            sys.displayhook(evaluate(last, namespace))
    except SystemExit as end:
        if end.code is not None and end.code != 0:
            show(end)
    except BaseException as error:
        show(error)


class After:
    """Does something to modules when they have been imported."""

    def __init__(self, changes):
        self.changes = changes

    def find_spec(self, name, path=None, target=None):
        change = self.changes.get(name)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                change(module)

            spec.loader.exec_module = exec_module
        return spec


class End:
    """An end of a pipe where asyncio wants a socket."""

    def __init__(self, descriptor):
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor

    def fileno(self):
        return self.descriptor

    def recv(self, count):
        return os.read(self.descriptor, count)

    def send(self, data):
        return os.write(self.descriptor, data)

    def close(self):
        os.close(self.descriptor)


def without_sockets(module):
    """Event loops wake themselves by a pair of sockets, of which there are none here."""

    def make_self_pipe(self):
        self._ssock, self._csock = map(End, os.pipe())
        self._internal_fds += 1
        self._add_reader(self._ssock.fileno(), self._read_from_self)

    module.BaseSelectorEventLoop._make_self_pipe = make_self_pipe


def within(folder):
    """Let paths of /mnt/data and /tmp mean those of a folder, where they could not be mounted."""
    base = os.path.dirname(folder)  # may itself be below /tmp
    places = [("/mnt/data", folder), ("/tmp", os.path.join(base, "tmp"))]

    def moved(path):
        try:
            text = os.fsdecode(path)
        except TypeError:
            return path  # a descriptor
        if text.startswith(base + "/"):
            return path
        for place, real in places:
            if text == place or text.startswith(place + "/"):
                text = real + text[len(place):]
                return os.fsencode(text) if isinstance(path, bytes) else text
        return path

    def wrap(module, name, count):
        inner = getattr(module, name, None)
        if inner is None:
            return

        def wrapper(*args, **named):
            for key in ("path", "src", "dst", "file", "database"):
                if key in named:
                    named[key] = moved(named[key])
            return inner(*map(moved, args[:count]), *args[count:], **named)

        wrapper.__name__, wrapper.__doc__ = name, inner.__doc__
        for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if inner in known:
                known.add(wrapper)
        setattr(module, name, wrapper)

    for name in ("open stat lstat listdir scandir mkdir rmdir unlink remove readlink chmod utime "
                 "truncate access statvfs chdir").split():
        wrap(os, name, 1)
    for name in ("rename", "replace", "link", "symlink"):
        wrap(os, name, 2)
    opens = builtins.open
    wrap(builtins, "open", 1)
    for module in list(sys.modules.values()):  # those that have it under a name of their own
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is opens:
                setattr(module, name, builtins.open)
    return lambda module: wrap(module, "connect", 1)


def display(*objects, **_):
    """Print objects as a notebook shows them."""
    for thing in objects:
        print(repr(thing))


def main():
    changes = {"asyncio.selector_events": without_sockets}
    if len(sys.argv) > 1:
        changes["sqlite3.dbapi2"] = within(sys.argv.pop())
    sys.meta_path.insert(0, After(changes))
    if sys.platform == "wasi":
        os.chdir("/mnt/data")
    sys.argv[:] = [""]
    sys.path.insert(0, "")
    sys.stdin = io.StringIO()  # nobody types
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    builtins.display = display
    namespace = module.__dict__
    namespace["__builtins__"] = builtins
    number = 0
    while True:
        count = int.from_bytes(read(4), "big")
        nonce, source = read(16), read(count - 16)
        number += 1
        run(source.decode("utf-8", "replace"), number, namespace)
        flush()
        reply(nonce)


main()
