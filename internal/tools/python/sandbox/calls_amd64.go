//go:build linux

package sandbox

import "golang.org/x/sys/unix"

// arch is how the kernel names this processor's table of calls. Calls of 32 bits have another one
// and end the process; those of x32 have bit 30 set in their numbers and are on no list.
const arch = unix.AUDIT_ARCH_X86_64

// legacy are older forms of calls that every program may make.
var legacy = []uintptr{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_GETDENTS,
	unix.SYS_RENAME, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_CREAT, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_SYMLINK, unix.SYS_READLINK,
	unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_TIME, unix.SYS_GETPGRP,
}

// legacyMetadata are older forms of those in metadata.
var legacyMetadata = []uintptr{unix.SYS_CHMOD, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}

// archChecks let a program set where its thread's memory begins.
var archChecks = []check{{unix.SYS_ARCH_PRCTL, 0, ^uint32(0), []uint32{archSetFS, archGetFS}}}

// Of arch_prctl, from asm/prctl.h.
const (
	archSetFS = 0x1002
	archGetFS = 0x1003
)
