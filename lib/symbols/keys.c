/* How symbol stores and tables spell the identity of a PDB. */
#include <stdio.h>

#include "handle.h"

void kda_guid_key(const uint8_t guid[16], char out[33])
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < 16; i++) {
        out[i * 2] = digits[guid[order[i]] >> 4];
        out[i * 2 + 1] = digits[guid[order[i]] & 15];
    }
    out[32] = '\0';
}

void kda_key_text(const uint8_t guid[16], uint32_t age, char out[KDA_KEY_TEXT])
{
    kda_guid_key(guid, out);
    (void)snprintf(out + 32, KDA_KEY_TEXT - 32, "%X", (unsigned)age);
}

void kda_symbols_store_path(const struct kda_kernel_id *id, char *out, size_t cap)
{
    char key[KDA_KEY_TEXT];
    kda_key_text(id->pdb_guid, id->pdb_age, key);
    (void)snprintf(out, cap, "%s/%s/%s", id->pdb_name, key, id->pdb_name);
}
