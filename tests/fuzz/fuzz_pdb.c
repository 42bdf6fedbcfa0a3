/* Any bytes as a PDB: identity and layout. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "symbols/pdb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_file *file;
    struct kda_error err;
    struct kda_layout layout;
    uint8_t guid[16];
    uint32_t age;
    if (kda_file_open_memory(data, size, "fuzz.pdb", &file, &err) != KDA_OK)
        return 0;
    enum kda_status named = kda_pdb_identity(file, guid, &age, &err);
    enum kda_status read = kda_pdb_layout(file, NULL, &layout, &err);
    if (named != KDA_OK && read == KDA_OK)
        abort(); /* a file that cannot say who it is for must not be used */
    kda_file_close(file);
    return 0;
}
