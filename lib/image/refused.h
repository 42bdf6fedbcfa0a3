/*
 * refused.h - formats that are recognised so that they can be refused by name, with one line of
 * advice. A row here and a probe in refused.c.
 */
#ifndef KDA_IMAGE_REFUSED_H
#define KDA_IMAGE_REFUSED_H

#include "image_internal.h"

#define UNPACK_FIRST "unpack it first and give the file inside"
#define NOT_MEMORY "it holds a disk, not memory; take a memory image of the running machine instead"

#define KDA_REFUSED_FORMATS(X)                                                                     \
    X(dmp32, "dmp32", "32-bit Windows crash dump", "only 64-bit (x64) Windows is supported")       \
    X(minidump, "minidump", "user-mode minidump (MDMP)",                                           \
      "it holds one process, not the kernel; take a kernel or live kernel memory dump instead")    \
    X(vmrs, "vmrs", "Hyper-V saved state (.vmrs)",                                                 \
      "convert it to a crash dump with VmSavedStateDumpProvider, or take a dump inside the "       \
      "guest")                                                                                     \
    X(hiberfil, "hiberfil", "Windows hibernation file",                                            \
      "convert it to a raw image with a hibernation file converter first")                         \
    X(aff4, "aff4", "AFF4 or ZIP archive",                                                         \
      "extract the memory first: for an AFF4 image with \"winpmem -e */PhysicalMemory -o "         \
      "memory.raw FILE\", for another archive by unpacking it")                                    \
    X(ewf, "ewf", "EWF image (EnCase, .E01)",                                                      \
      "export it to a raw image first: ewfexport -f raw -t memory FILE")                           \
    X(kdump, "kdump", "kdump-compressed dump (makedumpfile)",                                      \
      "write an ELF core instead (QEMU: dump-guest-memory without a kdump format)")                \
    X(qemu_stream, "qemu-migration", "QEMU migration stream or savevm (QEVM)",                     \
      "write an ELF core instead with dump-guest-memory")                                          \
    X(libvirt_save, "libvirt-save", "libvirt save image",                                          \
      "write an ELF core instead: virsh dump --memory-only DOMAIN FILE")                           \
    X(vbox_state, "virtualbox-state", "VirtualBox saved state (.sav)",                             \
      "write an ELF core instead: VBoxManage debugvm VM dumpvmcore --filename FILE")               \
    X(avml, "avml", "AVML compressed memory dump",                                                 \
      "convert it first: avml-convert FILE memory.lime")                                           \
    X(elf_other, "elf", "ELF program or library",                                                  \
      "only ELF cores of a whole 64-bit machine hold its memory")                                  \
    X(vhd, "vhd", "VHD or VHDX disk image", NOT_MEMORY)                                            \
    X(vmdk, "vmdk", "VMDK disk image", NOT_MEMORY)                                                 \
    X(qcow2, "qcow2", "QCOW2 disk image", NOT_MEMORY)                                              \
    X(vdi, "vdi", "VirtualBox disk image (.vdi)", NOT_MEMORY)                                      \
    X(gzip, "gzip", "gzip-compressed file", UNPACK_FIRST)                                          \
    X(bzip2, "bzip2", "bzip2-compressed file", UNPACK_FIRST)                                       \
    X(xz, "xz", "xz-compressed file", UNPACK_FIRST)                                                \
    X(zstd, "zstd", "zstd-compressed file", UNPACK_FIRST)                                          \
    X(sevenzip, "7z", "7-Zip archive", UNPACK_FIRST)

#define KDA_X(id, name, title, advice) extern const struct kda_image_ops kda_fmt_##id;
KDA_REFUSED_FORMATS(KDA_X)
#undef KDA_X

#endif
