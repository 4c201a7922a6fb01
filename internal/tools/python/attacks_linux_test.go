package python

import "golang.org/x/sys/unix"

// An attack is a way out of an interpreter, as code that goes through to its end only where it
// worked. What it may use besides Python is in prelude.
type attack struct {
	name string
	code string
	want containment
	wild bool // it would do harm where nothing contains it: not tried without a sandbox
	slow bool // like those that end the interpreter it is not tried everywhere with every change
}

// A containment says what becomes of an escape.
type containment uint8

const (
	refused  containment = iota // an exception
	over                        // the interpreter is gone, the call has failed
	late                        // the deadline ends it
	either                      // the one or the other, by what comes first
	harmless                    // it goes through, and whatever it did is within the sandbox
)

// prelude is run before the escapes, in the same interpreter.
const prelude = `import ctypes, errno, fcntl, mmap, os, platform, resource, select, signal, socket, stat, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = platform.machine() == "x86_64"
numbers = NUMBERS
def call(name, *arguments):
    number = numbers[name] if isinstance(name, str) else name
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0: raise OSError(ctypes.get_errno(), name)
    return result
def machine(code):
    pages = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    pages.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(pages)))()
`

// callNumbers are those of the system calls that attacks make by number.
var callNumbers = map[string]int{
	"acct": unix.SYS_ACCT, "add_key": unix.SYS_ADD_KEY, "adjtimex": unix.SYS_ADJTIMEX, "bpf": unix.SYS_BPF, "capset": unix.SYS_CAPSET,
	"clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3, "delete_module": unix.SYS_DELETE_MODULE, "execveat": unix.SYS_EXECVEAT,
	"fanotify_init": unix.SYS_FANOTIFY_INIT, "fchmodat": unix.SYS_FCHMODAT, "finit_module": unix.SYS_FINIT_MODULE, "fsopen": unix.SYS_FSOPEN, "init_module": unix.SYS_INIT_MODULE,
	"inotify_init1": unix.SYS_INOTIFY_INIT1, "io_uring_setup": unix.SYS_IO_URING_SETUP, "kcmp": unix.SYS_KCMP, "kexec_load": unix.SYS_KEXEC_LOAD,
	"keyctl": unix.SYS_KEYCTL, "landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, "mbind": unix.SYS_MBIND,
	"memfd_secret": unix.SYS_MEMFD_SECRET, "migrate_pages": unix.SYS_MIGRATE_PAGES, "mount": unix.SYS_MOUNT, "mount_setattr": unix.SYS_MOUNT_SETATTR,
	"move_mount": unix.SYS_MOVE_MOUNT, "move_pages": unix.SYS_MOVE_PAGES, "mq_open": unix.SYS_MQ_OPEN, "msgget": unix.SYS_MSGGET,
	"name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "open_tree": unix.SYS_OPEN_TREE,
	"openat2": unix.SYS_OPENAT2, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "personality": unix.SYS_PERSONALITY, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
	"pidfd_open": unix.SYS_PIDFD_OPEN, "pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL, "pivot_root": unix.SYS_PIVOT_ROOT, "prctl": unix.SYS_PRCTL,
	"process_madvise": unix.SYS_PROCESS_MADVISE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
	"ptrace": unix.SYS_PTRACE, "quotactl": unix.SYS_QUOTACTL, "reboot": unix.SYS_REBOOT, "request_key": unix.SYS_REQUEST_KEY,
	"rt_sigqueueinfo": unix.SYS_RT_SIGQUEUEINFO, "seccomp": unix.SYS_SECCOMP, "semget": unix.SYS_SEMGET, "setdomainname": unix.SYS_SETDOMAINNAME,
	"setns": unix.SYS_SETNS, "shmget": unix.SYS_SHMGET, "signalfd4": unix.SYS_SIGNALFD4, "socket": unix.SYS_SOCKET, "socketpair": unix.SYS_SOCKETPAIR,
	"swapon": unix.SYS_SWAPON, "syslog": unix.SYS_SYSLOG, "tgkill": unix.SYS_TGKILL, "timer_create": unix.SYS_TIMER_CREATE, "tkill": unix.SYS_TKILL,
	"umount2": unix.SYS_UMOUNT2, "unshare": unix.SYS_UNSHARE, "userfaultfd": unix.SYS_USERFAULTFD, "vhangup": unix.SYS_VHANGUP,
}

// attacks are all. FOLDER is a folder of outside that everybody may write to, SECRET a file in it
// that is the server's, SERVER the server's process, VICTIM one of the same user.
var attacks = []attack{
	// What it was given.
	{name: "descriptors of the server", code: `found = 0
for fd in range(5, 300):
    try: os.fstat(fd); found += 1
    except OSError: pass
assert found > 1`}, // one is what Python itself has open

	// Files of others.
	{name: "read a file", code: `open("SECRET").read()`},
	{name: "read by descriptor", code: `os.read(os.open("SECRET", os.O_RDONLY), 1)`},
	{name: "open for writing", code: `os.open("SECRET", os.O_RDWR)`},
	{name: "append", code: `open("SECRET", "a").write("x")`, wild: true},
	{name: "truncate by name", code: `os.truncate("SECRET", 0)`, wild: true},
	{name: "remove", code: `os.unlink("SECRET")`, wild: true},
	{name: "replace", code: `open("/mnt/data/r", "w"); os.replace("/mnt/data/r", "SECRET")`, wild: true},
	{name: "move out", code: `open("r", "w"); os.rename("r", "FOLDER/moved")`, wild: true},
	{name: "move in", code: `os.rename("SECRET", "stolen")`, wild: true},
	{name: "hard link in", code: `os.link("SECRET", "linked"); open("linked").read()`, wild: true},
	{name: "hard link out", code: `open("own", "w"); os.link("own", "FOLDER/linked")`, wild: true},
	{name: "symbolic link", code: `os.symlink("SECRET", "soft"); open("soft").read()`, wild: true},
	{name: "symbolic link to a folder", code: `os.symlink("FOLDER", "softs"); os.listdir("softs")`, wild: true},
	{name: "symbolic link to the root", code: `os.symlink("/", "roots"); open("roots/etc/passwd").read()`, wild: true},
	{name: "write through a link", code: `os.symlink("FOLDER/new", "softw"); open("softw", "w").write("x")`, wild: true},
	{name: "symbolic link outside", code: `os.symlink("/etc/passwd", "FOLDER/soft")`},
	{name: "climb", code: `open("/mnt/data/../../etc/passwd").read()`},
	{name: "climb from the folder", code: `open("../../../../../../etc/passwd").read()`},
	{name: "climb by descriptor", code: `fd = os.open(".", os.O_RDONLY); os.open("../../../../../../etc/passwd", os.O_RDONLY, dir_fd=fd)`},
	{name: "change folder, then read", code: `os.chdir("FOLDER"); open("secret").read()`},
	{name: "create a file", code: `open("FOLDER/new", "w").write("x")`},
	{name: "create without a name", code: `os.open("FOLDER", os.O_TMPFILE | os.O_RDWR, 0o600)`},
	{name: "make a folder", code: `os.mkdir("FOLDER/made")`},
	{name: "remove a folder", code: `os.rmdir("FOLDER/empty")`, wild: true},
	{name: "make a pipe", code: `os.mkfifo("FOLDER/pipe")`},
	{name: "make a device", code: `os.mknod("/mnt/data/dev", stat.S_IFBLK | 0o600, os.makedev(254, 0))`},
	{name: "change the mode", code: `os.chmod("SECRET", 0o646); assert os.stat("SECRET").st_mode & 0o777 == 0o646`, wild: true},
	{name: "change the mode by number", code: `call("fchmodat", -100, b"SECRET", 0o646); assert os.stat("SECRET").st_mode & 0o777 == 0o646`, wild: true},
	{name: "change the time", code: `os.utime("SECRET", (1, 1)); assert os.stat("SECRET").st_mtime == 1`, wild: true},
	{name: "change the time of a library", code: `fd = os.open(os.__file__, os.O_RDONLY); os.utime(fd, (1, 1)); assert os.fstat(fd).st_mtime == 1`, wild: true},
	{name: "change the mode of a library", code: `fd = os.open(os.__file__, os.O_RDONLY); os.fchmod(fd, 0o606); assert os.fstat(fd).st_mode & 0o777 == 0o606`, wild: true},
	{name: "change the owner", code: `os.chown("SECRET", 1, 1)`, wild: true},
	{name: "set an attribute", code: `os.setxattr("SECRET", "user.x", b"y")`, wild: true},
	{name: "write to a library", code: `open(os.__file__, "a")`, wild: true},
	{name: "write beside a library", code: `open(os.path.dirname(os.__file__) + "/ossian_escape.py", "w")`, wild: true},
	{name: "remove a library", code: `os.unlink(os.__file__)`, wild: true},
	{name: "list the users", code: `open("/etc/passwd").read()`},
	{name: "list the passwords", code: `open("/etc/shadow").read()`, wild: true},
	{name: "list homes", code: `os.listdir("/home")`},
	{name: "list processes", code: `os.listdir("/proc")[0]; open("/proc/version").read()`},
	{name: "own environment", code: `open("/proc/self/environ").read()`},
	{name: "own memory map", code: `open("/proc/self/maps").read()`},
	{name: "own memory", code: `open("/proc/self/mem", "rb")`},
	{name: "server's environment", code: `open("/proc/SERVER/environ").read()`},
	{name: "server's memory", code: `open("/proc/SERVER/mem", "rb")`},
	{name: "server's program", code: `os.readlink("/proc/SERVER/exe")`},
	{name: "server's descriptors", code: `os.listdir("/proc/SERVER/fd")`},
	{name: "server's root", code: `os.listdir("/proc/SERVER/root/etc")`},
	{name: "server's folder", code: `os.listdir("/proc/SERVER/cwd")`},
	{name: "kernel's settings", code: `open("/proc/sys/kernel/hostname").read()`},
	{name: "system's devices", code: `os.listdir("/sys/class")`},
	{name: "device: memory", code: `os.open("/dev/mem", os.O_RDONLY)`, wild: true},
	{name: "device: kernel's log", code: `os.open("/dev/kmsg", os.O_WRONLY)`, wild: true},
	{name: "device: terminal", code: `os.open("/dev/ptmx", os.O_RDWR)`},
	{name: "device: full", code: `os.open("/dev/full", os.O_RDWR)`},
	{name: "device: shared memory", code: `open("/dev/shm/ossian-escape", "w")`, wild: true},
	{name: "map a secret", code: `mmap.mmap(os.open("SECRET", os.O_RDONLY), 1, prot=mmap.PROT_READ)`},
	{name: "copy a secret", code: `import shutil; shutil.copy("SECRET", "copied")`, wild: true},
	{name: "database outside", code: `import sqlite3; c = sqlite3.connect("FOLDER/x.db"); c.execute("create table t (x)")`},
	{name: "C library opens", code: `libc.fopen.restype = ctypes.c_void_p
assert libc.fopen(b"SECRET", b"r")`},
	{name: "file handles", code: `class Handle(ctypes.Structure): _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("f", ctypes.c_ubyte * 128)]
h, m = Handle(128), ctypes.c_int()
call("name_to_handle_at", -100, b"/usr/lib", ctypes.byref(h), ctypes.byref(m), 0)`},
	{name: "open by handle", code: `call("open_by_handle_at", 0, ctypes.create_string_buffer(64), 0)`},
	{name: "openat2", code: `call("openat2", -100, b"/usr/lib", (ctypes.c_uint64 * 3)(), 24)`},
	{name: "watch files", code: `call("inotify_init1", 0)`},
	{name: "watch the system", code: `call("fanotify_init", 0, 0)`, wild: true},

	// Other places for a root.
	{name: "chroot", code: `os.chroot(".")`, wild: true},
	{name: "mount", code: `call("mount", b"none", b"/mnt/data", b"tmpfs", 0, None)`, wild: true},
	{name: "mount proc", code: `os.makedirs("p", exist_ok=True); call("mount", b"none", b"p", b"proc", 0, None)`, wild: true},
	{name: "unmount", code: `call("umount2", b"/mnt", 2)`, wild: true},
	{name: "pivot_root", code: `call("pivot_root", b".", b".")`, wild: true},
	{name: "open a tree", code: `call("open_tree", -100, b"/", 1)`},
	{name: "move a mount", code: `call("move_mount", -100, b"/mnt/data", -100, b"/mnt", 0)`, wild: true},
	{name: "open a file system", code: `call("fsopen", b"tmpfs", 0)`, wild: true},
	{name: "mount attributes", code: `call("mount_setattr", -100, b"/", 0, (ctypes.c_uint64 * 4)(0, 1, 0, 0), 32)`, wild: true},
	{name: "unshare users", code: `call("unshare", 0x10000000)`, wild: true},
	{name: "unshare mounts", code: `call("unshare", 0x20000)`, wild: true},
	{name: "join a namespace", code: `call("setns", 0, 0)`},
	{name: "landlock again", code: `call("landlock_create_ruleset", None, 0, 1)`},

	// Network.
	{name: "socket", code: `socket.socket()`},
	{name: "socket of IPv6", code: `socket.socket(socket.AF_INET6)`},
	{name: "socket for datagrams", code: `socket.socket(socket.AF_INET, socket.SOCK_DGRAM)`},
	{name: "socket of the system", code: `socket.socket(socket.AF_UNIX)`},
	{name: "socket of the kernel", code: `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)`},
	{name: "raw socket", code: `socket.socket(socket.AF_PACKET, socket.SOCK_RAW)`, wild: true},
	{name: "socket of virtual machines", code: `socket.socket(40)`},
	{name: "socket of ciphers", code: `socket.socket(38, socket.SOCK_SEQPACKET)`},
	{name: "pair of sockets", code: `socket.socketpair()`},
	{name: "socket by number", code: `call("socket", 2, 1, 0)`},
	{name: "pair by number", code: `call("socketpair", 1, 1, 0, (ctypes.c_int * 2)())`},
	{name: "connect", code: `socket.create_connection(("127.0.0.1", PORT), 1)`},
	{name: "web", code: `import urllib.request; urllib.request.urlopen("http://127.0.0.1:PORT/", timeout=1)`, slow: true},
	{name: "name", code: `socket.getaddrinfo("localhost", 80)`},
	{name: "event loop connects", code: `import asyncio
asyncio.run(asyncio.open_connection("127.0.0.1", PORT))`, slow: true},
	{name: "descriptor of a socket", code: `socket.socket(fileno=3); socket.socket(fileno=4)`},

	// Processes.
	{name: "fork", code: `if os.fork() == 0: os._exit(0)`},
	{name: "vfork", code: `call(58 if X86 else "clone", *(() if X86 else (0x4111, 0, 0, 0, 0)))`, wild: true},
	{name: "fork a terminal", code: `os.forkpty()`, wild: true},
	{name: "command", code: `subprocess.run(["/bin/true"], check=True)`},
	{name: "shell", code: `assert os.system("true") == 0`},
	{name: "popen", code: `os.popen("id").read()`},
	{name: "spawn", code: `os.posix_spawn("/bin/true", ["true"], {})`},
	{name: "multiprocessing", code: `import multiprocessing; multiprocessing.get_context("fork").Process(target=int).start()`, slow: true},
	{name: "process pool", code: `import concurrent.futures as f; f.ProcessPoolExecutor(1).submit(int).result()`, wild: true, slow: true},
	{name: "clone a process", code: `call("clone", 17, 0, 0, 0, 0)`, wild: true},
	{name: "clone into namespaces", code: `call("clone", 17 | 0x10000000, 0, 0, 0, 0)`, wild: true},
	{name: "clone memory alone", code: `call("clone", 0x100 | 0x4000, 0, 0, 0, 0)`, wild: true},
	{name: "clone a thread elsewhere", code: `call("clone", 0x10900 | 0x20000000, 0, 0, 0, 0)`},
	{name: "clone3", code: `call("clone3", (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17), 88)`, wild: true},
	{name: "execute a descriptor", code: `call("execveat", -100, b"/bin/true", None, None, 0)`, wild: true},
	{name: "execute memory", code: `fd = os.memfd_create("x"); os.execve(fd, ["x"], {})`},
	{name: "execute a shell", code: `os.execv("/bin/sh", ["sh", "-c", "exit 0"])`, wild: true},
	{name: "execute own program", code: `open("s", "w").write("#!/bin/sh\n"); os.chmod("s", 0o755); os.execv("./s", ["s"])`, wild: true},
	{name: "execute Python again", code: `os.execv(sys.executable, ["python", "-c", "open('SECRET').read(); print('ESCAPED')"])`, want: over, wild: true},
	{name: "execute by the loader", code: `import glob
os.execv((glob.glob("/lib64/ld-linux*") + glob.glob("/lib/ld-*"))[0], ["ld", "/bin/cat", "SECRET"])`, want: over, wild: true},
	{name: "fork bomb", code: `made = 0
for _ in range(1000):
    try:
        if os.fork() == 0: time.sleep(1); os._exit(0)
        made += 1
    except OSError: pass
assert made`, wild: true},
	{name: "thread bomb", code: `threading.stack_size(1 << 16)
stop, made = threading.Event(), 0
for _ in range(5000):
    try: threading.Thread(target=stop.wait, daemon=True).start(); made += 1
    except RuntimeError: break
stop.set(); threading.stack_size(0)
assert made > 80`, wild: true},
	{name: "another session", code: `os.setsid()`},
	{name: "another group", code: `os.setpgid(0, 0); os.setpgrp()`, wild: true},

	// Signals and other processes.
	{name: "signal the server", code: `os.kill(SERVER, 0)`},
	{name: "signal a victim", code: `os.kill(VICTIM, 9)`, wild: true},
	{name: "signal the parent", code: `os.kill(os.getppid() or SERVER, 0)`},
	{name: "signal all", code: `os.kill(-1, 0)`, wild: true},
	{name: "signal the group", code: `os.kill(0, 0)`},
	{name: "signal a thread", code: `call("tkill", SERVER, 0)`},
	{name: "signal a server's thread", code: `call("tgkill", SERVER, SERVER, 0)`},
	{name: "queue a signal", code: `call("rt_sigqueueinfo", VICTIM, 9, ctypes.create_string_buffer(128))`, wild: true},
	{name: "process descriptor", code: `call("pidfd_open", SERVER, 0)`},
	{name: "own process descriptor", code: `call("pidfd_open", os.getpid(), 0)`},
	{name: "steal a descriptor", code: `call("pidfd_getfd", 0, 0, 0)`},
	{name: "signal by descriptor", code: `call("pidfd_send_signal", 0, 0, None, 0)`},
	{name: "signals of files", code: `r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, SERVER)`},
	{name: "notes of folders", code: `fcntl.fcntl(os.open(".", os.O_RDONLY), fcntl.F_NOTIFY, 1)`, wild: true},
	{name: "leases", code: `fcntl.fcntl(os.open("l", os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_RDLCK)`, wild: true},
	{name: "trace the server", code: `assert libc.ptrace(16, SERVER, 0, 0) == 0`, wild: true},
	{name: "seize a victim", code: `call("ptrace", 0x4206, VICTIM, 0, 0)`, wild: true},
	{name: "be traced", code: `assert libc.ptrace(0, 0, 0, 0) == 0`, wild: true},
	{name: "read memory", code: `call("process_vm_readv", SERVER, None, 0, None, 0, 0)`},
	{name: "write memory", code: `call("process_vm_writev", SERVER, None, 0, None, 0, 0)`},
	{name: "compare processes", code: `call("kcmp", os.getpid(), os.getpid(), 0, 0, 0)`},
	{name: "advise memory", code: `call("process_madvise", 0, None, 0, 0, 0)`},
	{name: "priority of the server", code: `os.setpriority(os.PRIO_PROCESS, SERVER, 5)`, wild: true},
	{name: "priority", code: `os.nice(1)`, wild: true},
	{name: "real time", code: `os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))`, wild: true},
	{name: "limits of the server", code: `resource.prlimit(SERVER, resource.RLIMIT_NOFILE)`},
	{name: "more memory", code: `resource.setrlimit(resource.RLIMIT_AS, (-1, -1))`, wild: true},
	{name: "less memory", code: `resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))`, wild: true},
	{name: "larger files", code: `resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))`, wild: true},
	{name: "outlive the server", code: `call("prctl", 1, 0, 0, 0, 0)`, wild: true},
	{name: "become a reaper", code: `call("prctl", 36, 1, 0, 0, 0)`, wild: true},
	{name: "be dumpable", code: `call("prctl", 4, 0, 0, 0, 0)`, wild: true},
	{name: "change the memory map", code: `call("prctl", 35, 1, 0, 0, 0)`, wild: true},
	{name: "keep capabilities", code: `call("prctl", 8, 1, 0, 0, 0)`, wild: true},

	// The kernel.
	{name: "io_uring", code: `call("io_uring_setup", 8, ctypes.create_string_buffer(120))`},
	{name: "bpf", code: `call("bpf", 0, ctypes.create_string_buffer(128), 128)`},
	{name: "performance counters", code: `call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)`},
	{name: "keys", code: `call("keyctl", 0, -3, 0)`},
	{name: "add a key", code: `call("add_key", b"user", b"x", b"y", 1, -3)`, wild: true},
	{name: "request a key", code: `call("request_key", b"user", b"x", None, -3)`},
	{name: "userfaultfd", code: `call("userfaultfd", 1)`},
	{name: "files in memory", code: `os.memfd_create("x")`},
	{name: "secret memory", code: `call("memfd_secret", 0)`},
	{name: "shared memory", code: `call("shmget", 0, 4096, 0o1600)`, wild: true},
	{name: "messages", code: `call("msgget", 0, 0o1600)`, wild: true},
	{name: "semaphores", code: `call("semget", 0, 1, 0o1600)`, wild: true},
	{name: "message queues", code: `call("mq_open", b"x", 0o102, 0o600, None)`, wild: true},
	{name: "timers", code: `call("timer_create", 0, None, ctypes.byref(ctypes.c_int()))`},
	{name: "signals as files", code: `call("signalfd4", -1, (ctypes.c_uint64 * 1)(), 8, 0)`},
	{name: "personality", code: `call("personality", 0x0040000)`, wild: true},
	{name: "accounting", code: `call("acct", None)`, wild: true},
	{name: "swap", code: `call("swapon", b"x", 0)`, wild: true},
	{name: "reboot", code: `call("reboot", 0xfee1dead, 672274793, 0)`, wild: true},
	{name: "another kernel", code: `call("kexec_load", 0, 0, None, 0)`, wild: true},
	{name: "load a module", code: `call("init_module", b"", 0, b"")`, wild: true},
	{name: "load a module's file", code: `call("finit_module", 0, b"", 0)`, wild: true},
	{name: "remove a module", code: `call("delete_module", b"x", 0)`, wild: true},
	{name: "set the time", code: `time.clock_settime(time.CLOCK_REALTIME, time.time())`, wild: true},
	{name: "adjust the time", code: `call("adjtimex", ctypes.create_string_buffer(256))`},
	{name: "name the host", code: `socket.sethostname("x")`, wild: true},
	{name: "name the domain", code: `call("setdomainname", b"x", 1)`, wild: true},
	{name: "the kernel's log", code: `call("syslog", 10, None, 0)`},
	{name: "quotas", code: `call("quotactl", 0, None, 0, None)`, wild: true},
	{name: "hang up", code: `call("vhangup")`, wild: true},
	{name: "memory policy", code: `call("mbind", 0, 0, 0, None, 0, 0)`},
	{name: "move pages", code: `call("move_pages", 0, 0, None, None, None, 0)`},
	{name: "migrate pages", code: `call("migrate_pages", SERVER, 0, None, None)`},
	{name: "filter again", code: `call("seccomp", 2, 0, ctypes.byref(ctypes.c_uint32(0x7fff0000)))`},
	{name: "unknown call", code: `call(1000)`},
	{name: "steer a terminal", code: `fcntl.ioctl(1, 0x5412, b"x")`},
	{name: "clone a file range", code: `fcntl.ioctl(os.open("c", os.O_CREAT | os.O_RDWR), 0x40049409, 3)`},
	{name: "x32", code: `call(0x40000000 | 39)`},
	{name: "x32 socket", code: `call(0x40000000 | 41, 2, 1, 0)`},

	// Who it is.
	{name: "become root", code: `os.setuid(0); assert os.getuid() == 0 and open("/etc/shadow").read()`, wild: true},
	{name: "become another", code: `os.setuid(12345)`, wild: true},
	{name: "another group's", code: `os.setgid(12345)`, wild: true},
	{name: "more groups", code: `os.setgroups([0])`, wild: true},
	{name: "real and effective", code: `os.setresuid(0, 0, 0)`, wild: true},
	{name: "capabilities", code: `class H(ctypes.Structure): _fields_ = [("v", ctypes.c_uint32), ("p", ctypes.c_int)]
call("capset", ctypes.byref(H(0x20080522, 0)), (ctypes.c_uint32 * 6)(*[0xffffffff] * 6))`, wild: true},

	// Too much of something.
	{name: "memory at once", code: `len(bytearray(4 << 30))`, wild: true},
	{name: "memory bit by bit", code: `held = []
while True: held.append(bytearray(1 << 20))`, wild: true, slow: true},
	{name: "memory by objects", code: `x = []
while True: x.append(" " * 100000 + str(len(x)))`, wild: true, slow: true},
	{name: "memory of a mapping", code: `mmap.mmap(-1, 8 << 30)`, wild: true},
	{name: "a large number", code: `len(str(10 ** 10 ** 9))`, want: late, wild: true},
	{name: "a large file", code: `f = open("large", "wb")
for _ in range(200): f.write(b"x" * (1 << 20))`, wild: true},
	{name: "recursion", code: `def f(): f()
f()`},
	{name: "descriptors", code: `made = [os.dup(0) for _ in range(5000)]`, wild: true},
	{name: "a loop", code: `while True: pass`, want: late, wild: true},
	{name: "a loop that catches", code: `while True:
    try:
        while True: pass
    except BaseException: pass`, want: late, wild: true},
	{name: "a long sleep", code: `time.sleep(1000)`, want: late, wild: true},
	{name: "a loop in C", code: `sum(range(10 ** 12))`, want: late, wild: true},
	{name: "an expression that explodes", code: `import re; re.match("(a+)+$", "a" * 60 + "b")`, want: late, wild: true},
	{name: "all signals ignored", code: `for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass`, want: late, wild: true},
	{name: "waiting for a lock", code: `l = threading.Lock(); l.acquire(); l.acquire()`, want: late, wild: true},
	{name: "output without end", code: `while True: print("x" * 1000)`, want: late, wild: true},
	{name: "output of bytes without end", code: `while True: os.write(1, os.urandom(1 << 16)); os.write(2, b"\xff" * (1 << 16))`, want: late, wild: true},
	{name: "threads that go on", code: `for _ in range(4): threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()`, want: harmless, wild: true},

	// The server's own protocol.
	{name: "a reply that is none", code: `os.write(4, b"x" * 100)`, want: over, wild: true},
	{name: "a long reply", code: `os.write(4, b"\xff\xff\xff\xff" * 10000)`, want: over, wild: true},
	{name: "replies without end", code: `while True: os.write(4, bytes(65536))`, want: over, wild: true},
	{name: "half a reply", code: `os.write(4, b"\0\0\0")`, want: over, wild: true},
	{name: "no replies any more", code: `os.close(4)`, want: over, wild: true},
	{name: "no requests any more", code: `os.close(3)`, want: harmless, wild: true},
	{name: "after that", code: `pass`, want: over, wild: true},
	{name: "requests read away", code: `os.read(3, 1)`, want: late, wild: true},
	{name: "write to the requests", code: `os.write(3, b"x")`},
	{name: "read the replies", code: `os.read(4, 1)`},
	{name: "a reply of its own", code: `frame = sys._getframe()
while "nonce" not in frame.f_locals: frame = frame.f_back
os.write(4, (16).to_bytes(4, "big") + frame.f_locals["nonce"])`, want: either, wild: true},
	{name: "and then the second one", code: `pass`, want: either, wild: true},
	{name: "no outputs", code: `os.close(1); os.close(2)`, want: harmless, wild: true},
	{name: "print into the replies", code: `os.dup2(4, 1); print("x", flush=True)`, want: over, wild: true},
	{name: "the runner", code: `for name in dir(sys.modules["builtins"]):
    if not name.startswith("_") and name not in ("BaseException", "Exception"): setattr(sys.modules["builtins"], name, None)`, want: over, wild: true},
	{name: "exit", code: `os._exit(0)`, want: over, wild: true},
	{name: "abort", code: `os.abort()`, want: over, wild: true},
	{name: "fault", code: `ctypes.string_at(1)`, want: over, wild: true},
	{name: "calls of 32 bits", code: `machine(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3") if X86 else os.abort()`, want: over, wild: true}, // getpid by int 0x80
	{name: "stop oneself", code: `os.kill(os.getpid(), signal.SIGKILL); os.abort()`, want: over, wild: true},
}
