/*
 * kda/image.h - a memory image file as physical pages.
 *
 * Opens any supported format (kda_image_formats lists them), answers physical reads and tells
 * what the file's own header says about the machine. Files are read with positioned reads, never
 * mapped or read whole. A page that the file does not hold is KDA_ABSENT, never zeros, unless the
 * format itself says the page is zero.
 *
 * Ownership: kda_image_open gives the caller a handle to kda_image_close. Pointers inside
 * kda_image_info live as long as the handle. Threads: one thread per handle at a time.
 */
#ifndef KDA_IMAGE_H
#define KDA_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KDA_PAGE_SIZE 4096u
#define KDA_PAGE_MASK 4095u
#define KDA_IMAGE_MAX_CPUS 256u
#define KDA_IMAGE_MAX_WARNINGS 16u

struct kda_image;

/* How the virtual memory of a file may be reached. */
enum kda_image_kind {
    KDA_IMAGE_PHYSICAL, /* physical pages: everything works */
    KDA_IMAGE_TRIAGE,   /* small crash dump: only named pieces of virtual memory */
};

/* A driver named in a triage dump. */
struct kda_image_driver {
    const char *name; /* UTF-8 */
    uint64_t base;
    uint32_t size;      /* bytes */
    uint32_t timestamp; /* PE TimeDateStamp */
    uint32_t checksum;
};

/* One piece of virtual memory stored in a triage dump. */
struct kda_image_block {
    uint64_t va;
    uint64_t file_off;
    uint32_t size; /* bytes; not a page multiple */
};

/* What the file itself says. A fact that the format does not carry has its has_ flag off or is 0.
 * Source: offsets at the top of lib/image/dmp.c and fmt_*.c. */
struct kda_image_info {
    const char *format; /* short stable name, as in kda_image_formats ("dmp-bitmap") */
    const char *title;  /* for people ("Windows crash dump, bitmap (DumpType 5)") */
    enum kda_image_kind kind;
    const char *companion; /* path of the other file that was read (.vmss, .vmem), NULL = none */
    uint64_t file_size;
    uint64_t data_size;  /* of the file that holds the pages: it or its companion */
    uint64_t page_count; /* pages the file can answer for */
    uint64_t max_pa;     /* one past the highest physical address held */
    uint32_t dump_type;  /* DMP only, else 0 */

    /* Candidates for the kernel's page-table root, best first; each must still be verified by the
     * kernel it maps (a CPU may have been stopped in user mode). Low 12 bits already cleared. */
    uint64_t dtb[KDA_IMAGE_MAX_CPUS];
    size_t dtb_count;
    bool la57; /* header says CR4.LA57 was on */

    bool has_roots; /* next three are from a DMP header */
    uint64_t ps_loaded_module_list;
    uint64_t ps_active_process_head;
    uint64_t kd_debugger_data_block; /* 0 = not given */

    uint32_t major;   /* DMP: 15 = free build, 12 = checked */
    uint32_t build;   /* 0 = not given */
    uint32_t machine; /* PE machine (0x8664), 0 = not given */
    uint32_t cpus;    /* 0 = not given */
    uint32_t bugcheck;
    uint64_t bugcheck_args[4];
    bool has_bugcheck;
    uint64_t system_time_100ns; /* FILETIME of capture, UTC; 0 = not given */

    /* Triage dumps only. */
    const struct kda_image_driver *drivers;
    size_t driver_count;
    const struct kda_image_block *blocks;
    size_t block_count;
    uint64_t kdbg_off;        /* file offset of the debugger data block copy, 0 = none */
    uint32_t kdbg_size;       /* bytes */
    uint64_t kernel_base;     /* from that copy */
    const char *process_name; /* ImageFileName in the stored EPROCESS, NULL = not stored */
    uint64_t process_va;      /* EPROCESS named by the dump, 0 = not given */
    uint64_t process_pid;
    bool has_process_pid;

    /* Things the user should know ("no .vmss beside this .vmem ..."); UTF-8 sentences. */
    const char *warnings[KDA_IMAGE_MAX_WARNINGS];
    size_t warning_count;
};

/* Counters for `make bench` and -v; reset never. */
struct kda_image_stats {
    uint64_t reads;      /* calls that reached the file */
    uint64_t bytes;      /* bytes read from the file */
    uint64_t pages_read; /* kda_image_read_page calls answered */
};

/* One row of the table of formats. */
struct kda_image_format {
    const char *name;
    const char *title;
    bool readable;      /* false: recognised and refused by name */
    const char *advice; /* for unreadable formats: what to do instead; else NULL */
};

/* The table, in probe order. *count receives the number of rows. Static storage. */
const struct kda_image_format *kda_image_formats(size_t *count);

/* Opens `path`, finds its format by the strongest magic first (raw last), and reads its header.
 * Errors: KDA_IO (cannot open or read), KDA_UNSUPPORTED (text names the format and the advice),
 * KDA_BAD_DATA (right format, damaged), KDA_LIMIT, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_image_open(const char *path, struct kda_image **ret,
                                              struct kda_error *err);

/* Same over bytes in memory (tests, fuzzers). The bytes are borrowed until close. `name` is used
 * in messages only. Companion files are not looked for. */
KDA_MUST_CHECK enum kda_status kda_image_open_memory(const void *bytes, size_t size,
                                                     const char *name, struct kda_image **ret,
                                                     struct kda_error *err);

void kda_image_close(struct kda_image *image); /* NULL is allowed */

const struct kda_image_info *kda_image_info(const struct kda_image *image);
const struct kda_image_stats *kda_image_stats(const struct kda_image *image);

/* Reads one 4 KiB page. KDA_ABSENT if the image does not hold all of it; KDA_IO; KDA_UNSUPPORTED
 * on triage dumps. KDA_ABSENT is cheap: no error text is formatted unless err is given. */
KDA_MUST_CHECK enum kda_status kda_image_read_page(struct kda_image *image, uint64_t pfn,
                                                   void *page, struct kda_error *err);

/* Reads `size` bytes at physical address `pa`; may cross pages; all or nothing. Meant for scans
 * (large sequential reads); kda_image_next_run tells where memory is. */
KDA_MUST_CHECK enum kda_status kda_image_read(struct kda_image *image, uint64_t pa, void *buf,
                                              size_t size, struct kda_error *err);

/* Finds the first stretch of present memory at or after `pa`: *start and *size (bytes; page
 * multiples). Returns false when there is none. Adjacent stretches may be given separately. */
bool kda_image_next_run(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size);

/* First page at or after the one of `pa` (an address inside a stretch) that may hold anything but
 * zeros: skips the holes of sparse files, not past the end of the stretch. Scans need not read what
 * it skips. */
uint64_t kda_image_next_data(struct kda_image *image, uint64_t pa);

/* Triage dumps: reads virtual memory from the stored pieces; KDA_ABSENT if not stored. */
KDA_MUST_CHECK enum kda_status kda_image_read_virtual(struct kda_image *image, uint64_t va,
                                                      void *buf, size_t size,
                                                      struct kda_error *err);

#ifdef __cplusplus
}
#endif

#endif
