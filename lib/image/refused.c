#include "refused.h"

#include <string.h>

#include "bytes.h"

/* One probe per row; `has` looks for a string constant at an offset of the first page. */
#define has(off, magic) kda_head_has(image, off, magic, sizeof(magic) - 1)
#define REFUSE(id, condition)                                                                      \
    static enum kda_status probe_##id(struct kda_image *image, struct kda_error *err)              \
    {                                                                                              \
        (void)err;                                                                                 \
        return (condition) ? KDA_OK : KDA_NOT_MINE;                                                \
    }                                                                                              \
    const struct kda_image_ops kda_fmt_##id = {.probe = probe_##id};

REFUSE(dmp32, has(0, "PAGEDUMP"))
REFUSE(minidump, has(0, "MDMP"))
REFUSE(vmrs, has(0, "\x14\x20\x28\x01"))
/* Source: PO_MEMORY_IMAGE.Signature; RSTR is set while a resume is running. */
REFUSE(hiberfil, has(0, "HIBR") || has(0, "hibr") || has(0, "WAKE") || has(0, "wake") ||
                     has(0, "RSTR") || has(0, "rstr"))
REFUSE(aff4, has(0, "PK\x03\x04") || has(0, "PK\x05\x06"))
REFUSE(ewf, has(0, "EVF\x09\x0d\x0a\xff\x00") || has(0, "EVF2\x0d\x0a\x81\x00"))
REFUSE(kdump, has(0, "KDUMP   ") || has(0, "DISKDUMP") || has(0, "makedumpfile"))
REFUSE(qemu_stream, has(0, "QEVM"))
REFUSE(libvirt_save, has(0, "LibvirtQemudSave") || has(0, "LibvirtQemudPart"))
REFUSE(vbox_state, has(0, "\x7fVirtualBox SavedState"))
REFUSE(avml, has(0, "AVML\x02\x00\x00\x00"))
REFUSE(elf_other, has(0, "\x7f"
                         "ELF"))
REFUSE(vmdk, has(0, "KDMV") || has(0, "COWD") || has(0, "# Disk DescriptorFile"))
REFUSE(qcow2, has(0, "QFI\xfb"))
REFUSE(vdi, has(0x40, "\x7f\x10\xda\xbe"))
REFUSE(gzip, has(0, "\x1f\x8b\x08"))
REFUSE(bzip2, has(0, "BZh") && has(4, "1AY&SY"))
REFUSE(xz, has(0, "\xfd"
                  "7zXZ\x00"))
REFUSE(zstd, has(0, "\x28\xb5\x2f\xfd"))
REFUSE(sevenzip, has(0, "7z\xbc\xaf\x27\x1c"))

/* A fixed-size VHD is the bare disk with its mark in the last sector. */
static enum kda_status probe_vhd(struct kda_image *image, struct kda_error *err)
{
    if (has(0, "conectix") || has(0, "vhdxfile"))
        return KDA_OK;
    uint64_t size = kda_file_size(image->file);
    uint8_t footer[8];
    if (size < 512 || size % 512 != 0)
        return KDA_NOT_MINE;
    enum kda_status status = kda_file_read_at(image->file, size - 512, footer, 8, err);
    if (status != KDA_OK)
        return status;
    return memcmp(footer, "conectix", 8) == 0 ? KDA_OK : KDA_NOT_MINE;
}
const struct kda_image_ops kda_fmt_vhd = {.probe = probe_vhd};
