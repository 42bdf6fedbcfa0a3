/*
 * A forged machine with one of everything the audit reads, changed by the input: the audit ends,
 * and what it says hangs together. Byte 0: which image; the rest is an edit script (edited.h).
 */
#include "edited.h"

#include "kda/audit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SD "sd=O:SYG:SYD:(A;;0x120fff;;;SY)(A;;0x1;;;BA)\n"

static const char common[] =
    "size 4M\nseed 3\ncpus 1\nkernel pages=sparse\ndrivers none\n"
    "driver WdFilter.sys size=0x10000 imports=PsSetCreateProcessNotifyRoutineEx,"
    "CmRegisterCallbackEx,ObRegisterCallbacks\n"
    "driver SysmonDrv.sys size=0x10000 imports=PsSetLoadImageNotifyRoutine\n"
    "process 4 handles=2\n"
    "process 412 ppid=4 name=svchost.exe path=\\x\\svchost.exe handles=2\n"
    "process 900 ppid=412 name=edr.exe path=\\x\\edr.exe handles=2\n"
    "process 904 name=evil.exe unlinked\n"
    "user 412\nuser 900 patch=EtwEventWrite:c3\n"
    "session 1 name=EventLog-System mode=0x180 " SD "session 2 name=Kernel mode=0x02800480 "
    "system " SD "session 3 name=Edr mode=0x100 eventslost=7\n"
    "consumer session=1 pid=412\nconsumer session=3 pid=900\nconsumer session=3 pid=412 unlinked\n"
    "provider {f4e1897c-bb5d-5668-f1d8-040f4d8dd344} enable=3,level=5\n"
    "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=1,level=5,any=0x10 "
    "enable=3,level=4 filter=pids:412 filter=exes:none.exe;svchost.exe filter=events:1,2\n"
    "provider {11111111-2222-3333-4444-555555555555} type=group enable=3\n"
    "reg {f4e1897c-bb5d-5668-f1d8-040f4d8dd344} kernel driver=nt\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} kernel driver=WdFilter.sys\n"
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} user pid=412 traits=Name "
    "group={11111111-2222-3333-4444-555555555555}\n"
    "callback process driver=WdFilter.sys\ncallback process driver=nt\ncallback image outside\n"
    "callback registry driver=WdFilter.sys altitude=328010\n"
    "callback registry driver=SysmonDrv.sys altitude=328010\n"
    "callback object_process driver=WdFilter.sys altitude=328010 post\n";

/* With groups and settings blocks, with pointer clocks, with globals. */
static const char *const builds[] = {"10.0.22000.795", "10.0.17763.379", "10.0.14393.4583"};
#define IMAGES (sizeof(builds) / sizeof(builds[0]))

static struct edited images[IMAGES];
static volatile uint64_t sink;

static void touch(const char *text)
{
    if (text)
        sink = sink + strlen(text);
}

static void require(bool truth)
{
    if (!truth)
        abort();
}

static bool one_event(void *context, const uint8_t guid[16], size_t index, uint16_t *id)
{
    (void)context;
    *id = guid[0];
    return index == 0;
}

static void look_at(const struct kda_audit *audit)
{
    size_t found = 0, open = 0, count, sum_found = 0, sum_open = 0;
    const struct kda_audit_finding *const *findings = kda_audit_findings(audit, &found);
    for (size_t i = 0; i < found; i++) {
        const struct kda_audit_finding *f = findings[i];
        require(f->severity <= f->check->severity && f->text[0] && f->object);
        require(i == 0 || findings[i - 1]->severity >= f->severity);
        require(f->evidence_count <= KDA_AUDIT_EVIDENCE);
        touch(f->name);
        touch(f->silo);
        for (size_t k = 0; k < f->evidence_count; k++) {
            touch(f->evidence[k].name);
            touch(f->evidence[k].found);
            touch(f->evidence[k].expected);
        }
    }
    const struct kda_unchecked *unchecked = kda_audit_unchecked(audit, &open);
    for (size_t i = 0; i < open; i++) {
        require(unchecked[i].reason[0] != '\0');
        touch(unchecked[i].object);
        touch(unchecked[i].name);
    }
    const struct kda_check_result *results = kda_audit_results(audit, &count);
    for (size_t i = 0; i < count; i++) {
        require((results[i].findings > 0) == (results[i].outcome == KDA_CHECK_FOUND));
        require(results[i].outcome != KDA_CHECK_PASSED || results[i].unchecked == 0);
        sum_found += results[i].findings;
        sum_open += results[i].unchecked;
    }
    require(sum_found + sum_open == found + open + kda_audit_dropped(audit));
}

static void audit_image(const struct edited *image)
{
    struct kda_audit_options options = {.lost_threshold = 5, .known_event = one_event};
    struct kda_kernel_options kernel_options;
    struct kda_image *file;
    struct kda_kernel *kernel;
    struct kda_etw *etw = NULL;
    struct kda_audit *audit;
    struct kda_error err;
    memset(&kernel_options, 0, sizeof(kernel_options));
    kernel_options.symbols.path = "profile";
    if (kda_image_open_memory(image->bytes, image->size, "fuzz.raw", &file, &err) != KDA_OK)
        return;
    if (kda_kernel_open(file, &kernel_options, &kernel, &err) == KDA_OK) {
        if (kda_kernel_load_symbols(kernel, &err) == KDA_OK) {
            if (kda_etw_map(kernel, &etw, &err) != KDA_OK)
                etw = NULL; /* the audit says so */
            if (kda_audit_run(kernel, etw, &options, &audit, &err) == KDA_OK) {
                look_at(audit);
                kda_audit_free(audit);
            }
            kda_etw_free(etw);
        }
        kda_kernel_close(kernel);
    }
    kda_image_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct edited *image = &images[data[0] % IMAGES];
    if (!image->bytes)
        edited_make(image, builds[data[0] % IMAGES], common);
    edited_apply(image, data + 1, size - 1);
    audit_image(image);
    edited_restore(image, data + 1, size - 1);
    return 0;
}
