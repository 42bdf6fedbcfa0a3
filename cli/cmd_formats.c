/*
 * cmd_formats.c - every table of the program.
 */
#include "cli.h"

static void put_images(struct kda_report *report)
{
    size_t count;
    const struct kda_image_format *formats = kda_image_formats(&count);
    for (size_t i = 0; i < count; i++)
        kda_report_format_row(report, "image", formats[i].name, formats[i].title,
                              formats[i].readable, formats[i].advice);
}

static void put_symbol_sources(struct kda_report *report)
{
    kda_report_format_row(report, "symbols", "profile", "built-in table of kernel builds", true,
                          NULL);
    kda_report_format_row(report, "symbols", "cache", "profiles of one's own (kda symbols add)",
                          true, NULL);
    kda_report_format_row(report, "symbols", "pdb", "program database of the kernel", true, NULL);
    kda_report_format_row(report, "symbols", "isf", "Volatility symbol table (.json, .json.xz)",
                          kda_symbols_have_isf(),
                          kda_symbols_have_isf() ? NULL : "build with jansson and liblzma");
    kda_report_format_row(report, "symbols", "download", "symbol server, only when asked",
                          kda_symbols_have_download(),
                          kda_symbols_have_download() ? NULL : "build with libcurl and libarchive");
}

static void put_builds(struct kda_report *report)
{
    size_t count = kda_profile_count();
    for (size_t i = 0; i < count; i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        kda_report_format_row(report, "build", info.version,
                              info.id.has_pdb ? info.id.pdb_name : NULL,
                              info.has_rvas && info.has_layout,
                              !info.has_layout ? "some globals only: the layout needs a PDB or ISF"
                              : info.has_rvas  ? NULL
                                               : "layout only: addresses need a PDB or ISF");
    }
}

static void put_compressions(struct kda_report *report)
{
    static const char advice[] =
        "such buffers are counted and skipped; relog the file uncompressed";
    kda_report_format_row(report, "trace", "etl", "trace file, plain buffers", true, NULL);
    kda_report_format_row(report, "trace", "xpress", "buffers in plain LZ77", true, NULL);
    kda_report_format_row(report, "trace", "lznt1", "buffers in LZNT1", false, advice);
    kda_report_format_row(report, "trace", "xpress_huffman", "buffers in LZ77 with Huffman", false,
                          advice);
}

static void put_outputs(struct kda_report *report)
{
    const struct kda_report_format *format;
    for (size_t i = 0; (format = kda_report_format_at(i)) != NULL; i++)
        kda_report_format_row(report, "output", format->name, format->title, true, NULL);
}

static void put_exit_codes(struct kda_report *report)
{
    for (size_t i = 0; i < cli_exit_code_count; i++)
        kda_report_format_row(report, "exit", cli_exit_codes[i].number, cli_exit_codes[i].meaning,
                              true, NULL);
}

int cli_run_formats(struct cli *cli)
{
    int code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    put_images(cli->report);
    put_symbol_sources(cli->report);
    put_builds(cli->report);
    put_compressions(cli->report);
    put_outputs(cli->report);
    put_exit_codes(cli->report);
    return cli_finish(cli, CLI_DONE);
}
