#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700

#include "term.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool term_is_terminal(FILE *file)
{
    return isatty(fileno(file)) == 1;
}

unsigned term_width(FILE *file)
{
    struct winsize size;
    memset(&size, 0, sizeof(size));
    if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return 80;
}

size_t term_write(FILE *file, const char *bytes, size_t size)
{
    return fwrite(bytes, 1, size, file);
}

double term_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0.0;
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void term_sleep_ms(unsigned milliseconds)
{
    struct timespec rest = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

uint64_t term_peak_kib(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss < 0)
        return 0;
    return (uint64_t)usage.ru_maxrss; /* KiB on Linux */
}

unsigned term_process_id(void)
{
    return (unsigned)getpid();
}

int term_last_error(void)
{
    return errno ? errno : EIO;
}

const char *term_error_text(int error)
{
    return strerror(error);
}

bool term_error_exists(int error)
{
    return error == EEXIST;
}

static void hold_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return;
}

void term_begin(void)
{
    hold_standard_files();
    (void)signal(SIGPIPE, SIG_IGN);
}

void term_arguments(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
}

const char *term_variable(const char *name)
{
    return getenv(name);
}

bool term_is_broken_pipe(int error)
{
    return error == EPIPE;
}

char *term_resolve(const char *path, bool *replaceable)
{
    struct stat info;
    if (stat(path, &info) == 0)
        *replaceable = S_ISREG(info.st_mode);
    else /* nothing there; a link into the void is written through, or the link would be replaced */
        *replaceable = errno == ENOENT && (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode));
    /* A link is followed, so that the file behind it is replaced and not the link. */
    char *real = realpath(path, NULL);
    return real ? real : strdup(path);
}

bool term_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool term_may_replace(const char *path)
{
    return access(path, W_OK) == 0 || errno == ENOENT;
}

void term_take_mode(FILE *file, const char *from)
{
    struct stat info;
    if (stat(from, &info) == 0)
        (void)fchmod(fileno(file), info.st_mode & 07777);
}

FILE *term_create(const char *path)
{
    return fopen(path, "wbx");
}

FILE *term_open_to_write(const char *path)
{
    return fopen(path, "wb");
}

void term_remove(const char *path)
{
    (void)unlink(path);
}

bool term_rename(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

bool term_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool term_make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || term_is_folder(path);
}

bool term_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* A signal handler can only reach a global: the one of the tool. */
static volatile sig_atomic_t remove_armed[TERM_TEMPORARIES];
static char remove_path[TERM_TEMPORARIES][PATH_MAX];

static void on_signal(int number)
{
    for (size_t i = 0; i < TERM_TEMPORARIES; i++)
        if (remove_armed[i])
            (void)unlink(remove_path[i]);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void handle_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    bool any = false;
    for (size_t i = 0; i < TERM_TEMPORARIES; i++)
        any |= remove_armed[i] != 0;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)signal(signals[i], any ? on_signal : SIG_DFL);
}

void term_remove_on_signal(const char *path)
{
    size_t size = strlen(path) + 1, i = 0;
    while (i < TERM_TEMPORARIES && remove_armed[i])
        i++;
    if (i == TERM_TEMPORARIES || size > sizeof(remove_path[i]))
        return;
    memcpy(remove_path[i], path, size);
    remove_armed[i] = 1;
    handle_signals();
}

void term_keep_on_signal(const char *path)
{
    for (size_t i = 0; i < TERM_TEMPORARIES; i++)
        if (remove_armed[i] && strcmp(remove_path[i], path) == 0)
            remove_armed[i] = 0;
    handle_signals();
}
