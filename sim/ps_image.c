/*
 * ps_image.c - loaded images and the notification about them.
 */
#include "ps.h"
#include "thread_state.h"

static struct sim_notify_list image_routines = SIM_NOTIFY_LIST;
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;

struct sim_module {
    struct sim_module *next;
    struct sim_wide path;
    uint64_t base;
    uint64_t size;
};

static void remember(struct sim_proc *process, const struct sim_image *image)
{
    struct sim_module *made = sim_alloc(sizeof(*made));

    sim_wide_set(&made->path, image->file.count ? image->file : image->path);
    made->base = image->base;
    made->size = image->size;
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

bool sim_module_at(uint32_t pid, uint64_t address, struct sim_wide *path)
{
    struct sim_proc *process = sim_proc_find(pid);
    bool found = false;

    if (!process)
        return false;
    pthread_mutex_lock(&modules_lock);
    for (const struct sim_module *m = process->modules; m && !found; m = m->next) {
        found = address >= m->base && address - m->base < m->size;
        if (found)
            sim_wide_set(path, (struct sim_str){m->path.units, m->path.count});
    }
    pthread_mutex_unlock(&modules_lock);
    sim_object_unref(process);
    return found;
}

void sim_image_load(const struct sim_image *image)
{
    struct sim_call call;
    struct sim_notify *n = NULL;
    struct sim_wide path = {NULL, 0};
    UNICODE_STRING name;
    IMAGE_INFO_EX info;
    uint32_t pid = image->pid ? image->pid : sim_self()->thread->process->pid;
    struct sim_proc *process = sim_proc_find(image->kernel ? 4 : pid);
    void *file =
        image->no_file ? NULL : sim_file_object(image->file.count ? image->file : image->path);

    sim_wide_set(&path, image->path);
    name = sim_unicode(&path);
    memset(&info, 0, sizeof(info));
    info.Size = sizeof(info);
    info.FileObject = file;
    info.ImageInfo.Properties =
        3u | (image->kernel ? KDA_IMAGE_SYSTEM_MODE : 0) |
        (image->no_file ? 0 : KDA_IMAGE_EXTENDED_INFO) | (image->signature_level & 15u) << 12 |
        (image->signature_type & 7u) << 16 | (image->partial ? KDA_IMAGE_PARTIAL_MAP : 0);
    info.ImageInfo.ImageBase = (PVOID)(uintptr_t)image->base;
    info.ImageInfo.ImageSize = image->size;
    if (process)
        remember(process, image);
    sim_self()->critical++;
    while ((n = sim_notify_next(&image_routines, n)) != NULL) {
        PLOAD_IMAGE_NOTIFY_ROUTINE routine = (PLOAD_IMAGE_NOTIFY_ROUTINE)(uintptr_t)n->routine;
        sim_call_enter(&call, "image notification", n->routine, PASSIVE_LEVEL);
        routine(path.count ? &name : NULL, (HANDLE)(uintptr_t)(image->kernel ? 0 : pid),
                &info.ImageInfo);
        sim_call_leave(&call);
    }
    sim_self()->critical--;
    sim_wide_free(&path);
    if (process)
        sim_object_unref(process);
    if (file)
        sim_object_unref(file);
}

void sim_image_end(void)
{
    sim_notify_clear(&image_routines);
}

NTSTATUS PsSetLoadImageNotifyRoutine(PLOAD_IMAGE_NOTIFY_ROUTINE routine)
{
    return sim_set_routine(&image_routines, __func__, (void *)(uintptr_t)routine, 0, false);
}

NTSTATUS PsRemoveLoadImageNotifyRoutine(PLOAD_IMAGE_NOTIFY_ROUTINE routine)
{
    int32_t refused;

    if (sim_removal_refused(&refused))
        return refused;
    return sim_set_routine(&image_routines, __func__, (void *)(uintptr_t)routine, 0, true);
}
