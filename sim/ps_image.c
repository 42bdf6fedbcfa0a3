/*
 * ps_image.c - loaded images and the notification about them.
 */
#include "ps.h"

static struct sim_notify_list image_routines =
    SIM_NOTIFY_LIST(STATUS_INSUFFICIENT_RESOURCES, "PS-056", "PS-062", true);
#define CONFLICTING_ARCHITECTURE 1u
#define MACHINE_TYPE_MISMATCH (1u << 11)
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;

struct sim_module {
    struct sim_module *next;
    struct sim_wide path;
    uint64_t base;
    uint64_t size;
    uint32_t type;
    uint32_t protect;
};
#define MEM_IMAGE 0x1000000u
#define PRIVATE 0x20000u

static void remember(struct sim_proc *process, const struct sim_image *image)
{
    struct sim_module *made = sim_alloc(sizeof(*made));

    sim_wide_set(&made->path, image->file.count ? image->file : image->path);
    made->base = image->base;
    made->size = image->size;
    made->type = MEM_IMAGE;
    made->protect = 0x20; /* PAGE_EXECUTE_READ */
    pthread_mutex_lock(&modules_lock);
    made->next = process->modules;
    process->modules = made;
    pthread_mutex_unlock(&modules_lock);
}

void sim_modules_free(struct sim_module *first)
{
    while (first) {
        struct sim_module *next = first->next;
        sim_wide_free(&first->path);
        free(first);
        first = next;
    }
}

bool sim_memory_add(uint32_t pid, const struct sim_memory *memory)
{
    struct sim_proc *process = sim_proc_find(pid);
    struct sim_module *made;

    if (!process)
        return false;
    made = sim_alloc(sizeof(*made));
    made->base = memory->base;
    made->size = memory->size;
    made->type = memory->type;
    made->protect = memory->protect;
    pthread_mutex_lock(&modules_lock);
    made->next = process->modules;
    process->modules = made;
    pthread_mutex_unlock(&modules_lock);
    sim_object_unref(process);
    return true;
}

bool sim_memory_at(uint32_t pid, uint64_t address, struct sim_memory *memory)
{
    struct sim_proc *process = sim_proc_find(pid);
    bool found = false;

    if (!process)
        return false;
    pthread_mutex_lock(&modules_lock);
    for (const struct sim_module *m = process->modules; m && !found; m = m->next) {
        found = address >= m->base && address - m->base < m->size;
        if (found)
            *memory = (struct sim_memory){m->base, m->size, m->type, m->protect};
    }
    pthread_mutex_unlock(&modules_lock);
    sim_object_unref(process);
    return found;
}

bool sim_module_at(uint32_t pid, uint64_t address, struct sim_wide *path)
{
    struct sim_proc *process = sim_proc_find(pid);
    bool found = false;

    if (!process)
        return false;
    pthread_mutex_lock(&modules_lock);
    for (const struct sim_module *m = process->modules; m && !found; m = m->next) {
        found = m->type != PRIVATE && address >= m->base && address - m->base < m->size;
        if (found)
            sim_wide_set(path, (struct sim_str){m->path.units, m->path.count});
    }
    pthread_mutex_unlock(&modules_lock);
    sim_object_unref(process);
    return found;
}

static ULONG properties_of(const struct sim_image *image)
{
    /* ImageAddressingMode is 3 everywhere. */
    return 3u | (image->kernel ? KDA_IMAGE_SYSTEM_MODE : 0) |
           (image->no_file ? 0 : KDA_IMAGE_EXTENDED_INFO) | (image->signature_level & 15u) << 12 |
           (image->signature_type & 7u) << 16 | (image->partial ? KDA_IMAGE_PARTIAL_MAP : 0) |
           (image->foreign_machine ? MACHINE_TYPE_MISMATCH : 0);
}

/* With the file object around it, or of just its own size: what lies outside is nobody's. */
static IMAGE_INFO *info_make(const struct sim_image *image, void *file, void **block)
{
    IMAGE_INFO_EX *extended = sim_alloc(image->no_file ? sizeof(IMAGE_INFO) : sizeof(*extended));
    IMAGE_INFO *info = image->no_file ? (IMAGE_INFO *)(void *)extended : &extended->ImageInfo;

    *block = extended;
    info->Properties = properties_of(image);
    info->ImageBase = (PVOID)(uintptr_t)image->base;
    info->ImageSize = image->size;
    if (!image->no_file) {
        extended->Size = sizeof(*extended);
        extended->FileObject = file;
    }
    return info;
}

static void tell_image(const struct sim_image *image, PUNICODE_STRING name, uint32_t pid,
                       IMAGE_INFO *info)
{
    struct sim_call call;
    struct sim_notify *n = NULL;
    bool before = sim_self()->notified;

    sim_self()->critical++;
    sim_self()->notified = true;
    while ((n = sim_notify_next(&image_routines, n)) != NULL) {
        PLOAD_IMAGE_NOTIFY_ROUTINE routine = (PLOAD_IMAGE_NOTIFY_ROUTINE)(uintptr_t)n->routine;
        if (image->foreign_machine && !(n->flavour & CONFLICTING_ARCHITECTURE))
            continue;
        sim_call_enter(&call, "image notification", n->routine, "PS-063", PASSIVE_LEVEL);
        routine(name, (HANDLE)(uintptr_t)(image->kernel ? 0 : pid), info);
        sim_call_leave(&call);
    }
    sim_self()->notified = before;
    sim_self()->critical--;
}

void sim_image_load(const struct sim_image *image)
{
    struct sim_wide path = {NULL, 0};
    UNICODE_STRING name;
    IMAGE_INFO *info;
    void *block;
    uint32_t pid = image->pid ? image->pid : sim_self()->thread->process->pid;
    struct sim_proc *process = sim_proc_find(image->kernel ? 4 : pid);
    struct sim_as as;
    void *file =
        image->no_file ? NULL : sim_file_object(image->file.count ? image->file : image->path);

    sim_wide_set(&path, image->path);
    name = sim_unicode(&path);
    info = info_make(image, file, &block);
    if (process)
        remember(process, image);
    if (!image->no_execute) {
        /* The main executable is told of in its own process. */
        if (image->main && process && process->threads)
            sim_as_begin(&as, process->threads);
        tell_image(image, path.count ? &name : NULL, pid, info);
        if (image->main && process && process->threads)
            sim_as_end(&as);
    }
    free(block);
    sim_wide_free(&path);
    if (process)
        sim_object_unref(process);
    if (file)
        sim_object_unref(file);
}

void sim_image_routines_taken(unsigned count)
{
    image_routines.foreign = count;
}

void sim_image_end(void)
{
    sim_notify_clear(&image_routines);
}

NTSTATUS PsSetLoadImageNotifyRoutine(PLOAD_IMAGE_NOTIFY_ROUTINE routine)
{
    return sim_set_routine(&image_routines, __func__, "PS-053", (void *)(uintptr_t)routine, 0);
}

NTSTATUS PsSetLoadImageNotifyRoutineEx(PLOAD_IMAGE_NOTIFY_ROUTINE routine, ULONG_PTR flags)
{
    if (flags & ~(ULONG_PTR)CONFLICTING_ARCHITECTURE)
        return NTSTATUS_OF(0xC00000F0); /* STATUS_INVALID_PARAMETER_2 */
    return sim_set_routine(&image_routines, __func__, "PS-053", (void *)(uintptr_t)routine,
                           (uint8_t)flags);
}

NTSTATUS PsRemoveLoadImageNotifyRoutine(PLOAD_IMAGE_NOTIFY_ROUTINE routine)
{
    return sim_remove_routine(&image_routines, __func__, "PS-060", (void *)(uintptr_t)routine,
                              APC_LEVEL);
}
