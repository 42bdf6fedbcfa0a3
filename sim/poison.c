/*
 * poison.c - memory that faults: what is undefined, and what belongs to a user.
 *
 * An undefined output that happens to be a pointer works on a good day. Here it leads to a page
 * that cannot be touched, and who touches it is told which rule says that it means nothing.
 */
#include "machine.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREAS 64u
#define PAGE 4096u

struct area {
    _Atomic uintptr_t at; /* 0: free */
    size_t size;
    const char *rule;
    const char *what;
    bool user; /* a guarded copy is answered, or fails where it went away */
};
#define USER "memory of a user without a guard"
static struct area areas[AREAS];
static pthread_mutex_t areas_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

static struct area *area_of(uintptr_t address, size_t bytes)
{
    for (unsigned i = 0; i < AREAS; i++) {
        uintptr_t at = atomic_load(&areas[i].at);
        if (at && address < at + areas[i].size && at < address + bytes)
            return &areas[i];
    }
    return NULL;
}

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));

    (void)ignored;
}

static void on_fault(int number, siginfo_t *info, void *unused)
{
    const struct area *area = area_of((uintptr_t)info->si_addr, 1);

    (void)unused;
    if (area) {
        say("sim: ");
        say(area->rule);
        say(": memory: touches ");
        say(area->what);
        say("\n");
        abort();
    }
    signal(number, SIG_DFL);
}

static void install(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    SIM_CHECK(at != MAP_FAILED, "the host has no memory");
    pthread_once(&handler_once, install);
    return at;
}

static void *area_make(size_t size, const char *rule, const char *what, bool user)
{
    size_t bytes = (size + 2 * PAGE - 1) & ~(size_t)(PAGE - 1);
    void *at = map(bytes);

    pthread_mutex_lock(&areas_lock);
    for (unsigned i = 0; i < AREAS; i++) {
        if (atomic_load(&areas[i].at))
            continue;
        areas[i].size = bytes;
        areas[i].rule = rule;
        areas[i].what = what;
        areas[i].user = user;
        atomic_store(&areas[i].at, (uintptr_t)at);
        pthread_mutex_unlock(&areas_lock);
        return at;
    }
    sim_bugcheck("simulator", "more than %u areas of poison", AREAS);
}

void *sim_poison(size_t size, const char *rule, const char *what)
{
    return area_make(size, rule, what, false);
}

/* What is before the pointer is poison too: an object has a head. */
void *sim_poison_object(const char *rule, const char *what)
{
    for (unsigned i = 0; i < AREAS; i++) {
        if (atomic_load(&areas[i].at) && !areas[i].user && areas[i].rule == rule)
            return (void *)(atomic_load(&areas[i].at) + PAGE);
    }
    return (uint8_t *)sim_poison(3 * PAGE, rule, what) + PAGE;
}

/* --- memory of users ------------------------------------------------------------------------- */

/* Small pieces come and go with each operation, so they are places of one area. */
#define SLOTS 1024u
#define SLOT_BYTES 64u
static struct {
    pthread_mutex_t lock;
    void *at;
    unsigned next;
    void *shadow[SLOTS];
} slots = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *slot_take(void *shadow, const char *rule)
{
    void *at;

    pthread_mutex_lock(&slots.lock);
    if (!slots.at) {
        pthread_mutex_unlock(&slots.lock);
        at = area_make(SLOTS * SLOT_BYTES, rule, USER, true);
        pthread_mutex_lock(&slots.lock);
        if (!slots.at)
            slots.at = at;
    }
    while (slots.shadow[slots.next % SLOTS])
        slots.next++;
    slots.shadow[slots.next % SLOTS] = shadow;
    at = (uint8_t *)slots.at + slots.next++ % SLOTS * SLOT_BYTES;
    pthread_mutex_unlock(&slots.lock);
    return at;
}

/* Index of the place; SLOTS: it is none. */
static unsigned slot_of(uintptr_t at)
{
    uintptr_t base = (uintptr_t)slots.at;

    return base && at >= base && at - base < SLOTS * SLOT_BYTES
               ? (unsigned)((at - base) / SLOT_BYTES)
               : SLOTS;
}

void *sim_user_memory(void *shadow, size_t size, const char *rule)
{
    SIM_CHECK(!shadow || size <= SLOT_BYTES, "%zu bytes of a user", size);
    return shadow ? slot_take(shadow, rule) : area_make(size, rule, USER, true);
}

void sim_poison_free(void *at)
{
    struct area *area;
    unsigned slot = slot_of((uintptr_t)at);
    size_t size = 0;

    if (!at)
        return;
    if (slot < SLOTS) {
        pthread_mutex_lock(&slots.lock);
        slots.shadow[slot] = NULL;
        pthread_mutex_unlock(&slots.lock);
        return;
    }
    pthread_mutex_lock(&areas_lock);
    area = area_of((uintptr_t)at, 1);
    if (area) {
        size = area->size;
        atomic_store(&area->at, 0);
    }
    pthread_mutex_unlock(&areas_lock);
    if (size)
        munmap(at, size);
}

bool sim_is_poison(const void *at)
{
    return at && area_of((uintptr_t)at, 1) != NULL;
}

bool sim_user_copy(const void *from, void *to, size_t bytes, NTSTATUS *status)
{
    const struct area *area = area_of((uintptr_t)from, bytes);
    unsigned slot = slot_of((uintptr_t)from);
    uint8_t *shadow;

    if (!area)
        return false;
    if (!area->user)
        sim_violation(area->rule, "memory", "copies %s", area->what);
    *status = STATUS_ACCESS_VIOLATION;
    shadow = slot < SLOTS ? slots.shadow[slot] : NULL;
    if (!shadow)
        return true;
    memcpy(to, shadow, bytes);
    /* The user writes something else at once. */
    for (size_t i = 0; i < bytes; i++)
        shadow[i] ^= 0x5A;
    *status = STATUS_SUCCESS;
    return true;
}

/* What the driver's guarded copy is on the host. */
NTSTATUS sim_guarded_copy(void *to, const void *from, SIZE_T bytes)
{
    NTSTATUS status;

    SIM_DDI(APC_LEVEL, "CM-041");
    if (sim_user_copy(from, to, bytes, &status))
        return status;
    memcpy(to, from, bytes);
    return STATUS_SUCCESS;
}

/* --- what was freed -------------------------------------------------------------------------- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(WITH_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

#define RESTING 256u

static pthread_mutex_t resting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *block;
    size_t size;
} resting[RESTING];
static unsigned resting_next;

static void wake(unsigned index)
{
    ASAN_UNPOISON_MEMORY_REGION(resting[index].block, resting[index].size);
    free(resting[index].block);
    resting[index].block = NULL;
}

void sim_rest(void *block, size_t keep, size_t size)
{
    if (size > keep) {
        memset((uint8_t *)block + keep, 0xDD, size - keep);
        ASAN_POISON_MEMORY_REGION((uint8_t *)block + keep, size - keep);
    }
    pthread_mutex_lock(&resting_lock);
    wake(resting_next);
    resting[resting_next].block = block;
    resting[resting_next].size = size;
    resting_next = (resting_next + 1) % RESTING;
    pthread_mutex_unlock(&resting_lock);
}

void sim_rest_end(void)
{
    for (unsigned i = 0; i < RESTING; i++)
        wake(i);
}
