#include "forge_int.h"

/* Records with a meaning: what the kernel logger and Microsoft-Windows-Kernel-Process write when
 * process 4242 starts, loads a library, connects, and starts another. Layouts as docs/decoding.md.
 */

#define ACTOR 4242u
#define CHILD 4250u

static void put_sid(struct blob *out)
{
    static const uint8_t system[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    blob_put64(out, 0xffffa58000001000u); /* TOKEN_USER: pointer and attributes */
    blob_put64(out, 0);
    blob_put(out, system, sizeof(system));
}

static void process_start(struct etl_record *r, struct blob *out)
{
    r->kind = ETL_SYSTEM;
    r->group = 3;
    r->type = 1;
    r->version = 4;
    r->pid = 772; /* who started it */
    blob_put64(out, 0xffffa58000424200u);
    blob_put32(out, ACTOR);
    blob_put32(out, 772);
    blob_put32(out, 1);
    blob_put32(out, 259);
    blob_put64(out, 0x1ad000);
    blob_put32(out, 0);
    put_sid(out);
    etl_put_narrow(out, "beacon.exe");
    etl_put_wide(out, "beacon.exe -k 7");
    etl_put_wide(out, "");
    etl_put_wide(out, "");
}

static void image_load(struct etl_record *r, struct blob *out)
{
    r->kind = ETL_SYSTEM;
    r->group = 3;
    r->type = 10;
    r->version = 3;
    blob_put64(out, 0x7ff812340000u);
    blob_put64(out, 0x21000);
    blob_put32(out, ACTOR);
    blob_put32(out, 0x1234);
    blob_put32(out, 0x5f000000);
    blob_put32(out, 0);
    blob_put64(out, 0x180000000u);
    blob_put(out, NULL, 16);
    etl_put_wide(out, "\\Device\\HarddiskVolume3\\Temp\\stage.dll");
}

static void tcp_connect(struct etl_record *r, struct blob *out)
{
    static const uint8_t ends[12] = {203, 0, 113, 9, 192, 0, 2, 7, 0x01, 0xbb, 0xc0, 0x00};
    r->kind = ETL_SYSTEM;
    r->group = 6;
    r->type = 12;
    r->version = 2;
    blob_put32(out, ACTOR);
    blob_put32(out, 0);
    blob_put(out, ends, sizeof(ends));
    blob_put(out, NULL, 8); /* mss and options */
    blob_put32(out, 65535);
    blob_put32(out, 0);
    blob_put32(out, 0);
    blob_put64(out, 0);
}

static void child_start(struct etl_record *r, struct blob *out)
{
    r->kind = ETL_EVENT;
    etl_guid("22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716", r->guid);
    r->id = 1;
    r->version = 0;
    r->type = 1;
    r->level = 4;
    r->keyword = 0x8000000000000010u;
    blob_put32(out, CHILD);
    blob_put64(out, 133543740960000000u);
    blob_put32(out, ACTOR);
    blob_put32(out, 1);
    etl_put_wide(out, "\\Device\\HarddiskVolume3\\Windows\\System32\\cmd.exe");
}

void story_record(size_t n, struct etl_record *r, struct blob *payload)
{
    static void (*const steps[])(struct etl_record *, struct blob *) = {process_start, image_load,
                                                                        tcp_connect, child_start};
    r->pid = ACTOR;
    r->tid = 4244;
    steps[n % 4](r, payload);
}
