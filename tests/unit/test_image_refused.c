/*
 * Files that are recognised and refused by name, each with advice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kda/image.h"

struct magic {
    const char *format;
    size_t off;
    const char *bytes;
    size_t size;
};

#define M(format, off, bytes)                                                                      \
    {                                                                                              \
        format, off, bytes, sizeof(bytes) - 1                                                      \
    }
static const struct magic magics[] = {
    M("dmp32", 0, "PAGEDUMP"),
    M("minidump", 0, "MDMP"),
    M("vmrs", 0, "\x14\x20\x28\x01"),
    M("hiberfil", 0, "HIBR"),
    M("hiberfil", 0, "hibr"),
    M("hiberfil", 0, "WAKE"),
    M("hiberfil", 0, "wake"),
    M("hiberfil", 0, "RSTR"),
    M("aff4", 0, "PK\x03\x04"),
    M("ewf", 0, "EVF\x09\x0d\x0a\xff\x00"),
    M("kdump", 0, "KDUMP   "),
    M("kdump", 0, "DISKDUMP"),
    M("kdump", 0, "makedumpfile\0\0\0\0"),
    M("qemu-migration", 0, "QEVM\0\0\0\x03"),
    M("libvirt-save", 0, "LibvirtQemudSave"),
    M("virtualbox-state", 0, "\x7fVirtualBox SavedState V2.0"),
    M("avml", 0, "AVML\x02\0\0\0"),
    M("elf", 0,
      "\x7f"
      "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0"),
    M("vhd", 0, "conectix"),
    M("vhd", 0, "vhdxfile"),
    M("vhd", 8192 - 512, "conectix"),
    M("vmdk", 0, "KDMV"),
    M("vmdk", 0, "# Disk DescriptorFile"),
    M("qcow2", 0, "QFI\xfb"),
    M("vdi", 0x40, "\x7f\x10\xda\xbe"),
    M("gzip", 0, "\x1f\x8b\x08"),
    M("bzip2", 0, "BZh91AY&SY"),
    M("xz", 0,
      "\xfd"
      "7zXZ\0"),
    M("zstd", 0, "\x28\xb5\x2f\xfd"),
    M("7z", 0, "7z\xbc\xaf\x27\x1c"),
};

static const struct kda_image_format *row(const char *name)
{
    size_t count;
    const struct kda_image_format *formats = kda_image_formats(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
        uint8_t bytes[8192] = {0};
        struct kda_image *image = NULL;
        struct kda_error err = {0};
        memcpy(bytes + magics[i].off, magics[i].bytes, magics[i].size);
        assert_int_equal(kda_image_open_memory(bytes, sizeof(bytes), "evil \"name", &image, &err),
                         KDA_UNSUPPORTED);
        const struct kda_image_format *format = row(magics[i].format);
        assert_non_null(format);
        assert_false(format->readable);
        assert_non_null(format->advice);
        assert_non_null(strstr(err.text, format->title));
        assert_non_null(strstr(err.text, format->advice));
        assert_non_null(strstr(err.text, "evil"));
        /* Small files are named too. */
        if (magics[i].off == 0)
            assert_int_equal(kda_image_open_memory(bytes, 64, "small", &image, NULL),
                             KDA_UNSUPPORTED);
    }
}

static void test_table(void **state)
{
    (void)state;
    size_t count, refused = 0;
    const struct kda_image_format *formats = kda_image_formats(&count);
    for (size_t i = 0; i < count; i++) {
        assert_true(formats[i].readable == (formats[i].advice == NULL));
        assert_ptr_equal(row(formats[i].name), &formats[i]); /* names are unique */
        if (formats[i].readable)
            continue;
        refused++;
        size_t seen = 0;
        for (size_t k = 0; k < sizeof(magics) / sizeof(magics[0]); k++)
            seen += strcmp(magics[k].format, formats[i].name) == 0;
        assert_true(seen > 0); /* each refused format is tested above */
    }
    assert_true(refused >= 20);
    assert_string_equal(formats[count - 1].name, "raw");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
