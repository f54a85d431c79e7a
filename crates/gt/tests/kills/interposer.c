// Stands between a program and the C library, and counts the operations that change files.
//
//   GT_OPERATIONS=FILE   appends one line per operation: its name, its path
//   GT_KILL_AT=N         the N-th operation does not happen, and the process is killed;
//                        a write happens by half
//   GT_FAIL_AT=N         the N-th operation fails with EIO
//
// Writes to standard output, standard error, pipes and devices do not count.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long operations;

static long number_of(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static void record(const char *operation, const char *path) {
    const char *log = getenv("GT_OPERATIONS");
    if (!log) return;
    char line[4200];
    int length = snprintf(line, sizeof line, "%s %s\n", operation, path ? path : "?");
    int file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0) {
        syscall(SYS_write, file, line, length);
        syscall(SYS_close, file);
    }
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

enum verdict { PROCEED, FAIL, KILL };

static enum verdict count(const char *operation, const char *path) {
    long now = atomic_fetch_add(&operations, 1) + 1;
    record(operation, path);
    if (now == number_of("GT_KILL_AT")) return KILL;
    if (now == number_of("GT_FAIL_AT")) return FAIL;
    return PROCEED;
}

static enum verdict count_handle(const char *operation, int handle) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    return count(operation, path);
}

static int is_file(int handle) {
    struct stat about;
    return handle > 2 && fstat(handle, &about) == 0 && S_ISREG(about.st_mode);
}

#define ORIGINAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define STOP(verdict)                 \
    switch (verdict) {                \
        case KILL: die();             \
        case FAIL: errno = EIO; return -1; \
        case PROCEED: break;          \
    }

static int changes(const char *path, int flags) {
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    return writes && strncmp(path, "/dev/", 5) && strncmp(path, "/proc/", 6);
}

#define OPEN(name)                                          \
    int name(const char *path, int flags, ...) {            \
        va_list rest;                                       \
        va_start(rest, flags);                              \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                       \
        if (changes(path, flags)) STOP(count("open", path)) \
        return ORIGINAL(name)(path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                        \
    int name(int folder, const char *path, int flags, ...) { \
        va_list rest;                                       \
        va_start(rest, flags);                              \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                       \
        if (changes(path, flags)) STOP(count("open", path)) \
        return ORIGINAL(name)(folder, path, flags, mode);   \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int handle, const void *bytes, size_t length) {
    if (is_file(handle)) {
        switch (count_handle("write", handle)) {
            case KILL: syscall(SYS_write, handle, bytes, length / 2); die();
            case FAIL: errno = EIO; return -1;
            case PROCEED: break;
        }
    }
    return syscall(SYS_write, handle, bytes, length);
}

ssize_t writev(int handle, const struct iovec *parts, int number) {
    if (is_file(handle)) STOP(count_handle("write", handle))
    return ORIGINAL(writev)(handle, parts, number);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *into, size_t length, unsigned flags) {
    if (is_file(to)) STOP(count_handle("write", to))
    return ORIGINAL(copy_file_range)(from, at, to, into, length, flags);
}

int fsync(int handle) {
    STOP(count_handle("fsync", handle))
    return ORIGINAL(fsync)(handle);
}

int fdatasync(int handle) {
    STOP(count_handle("fsync", handle))
    return ORIGINAL(fdatasync)(handle);
}

int ftruncate64(int handle, off64_t length) {
    STOP(count_handle("truncate", handle))
    return ORIGINAL(ftruncate64)(handle, length);
}

int flock(int handle, int operation) {
    STOP(count_handle("lock", handle))
    return ORIGINAL(flock)(handle, operation);
}

int rename(const char *from, const char *to) {
    STOP(count("rename", to))
    return ORIGINAL(rename)(from, to);
}

int unlink(const char *path) {
    STOP(count("unlink", path))
    return ORIGINAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags) {
    STOP(count("unlink", path))
    return ORIGINAL(unlinkat)(folder, path, flags);
}

int rmdir(const char *path) {
    STOP(count("rmdir", path))
    return ORIGINAL(rmdir)(path);
}

int mkdir(const char *path, mode_t mode) {
    STOP(count("mkdir", path))
    return ORIGINAL(mkdir)(path, mode);
}
