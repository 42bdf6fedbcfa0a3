#include "cli.h"

#include "term.h"

int main(int argc, char **argv)
{
    term_hold_standard_files();
    term_ignore_broken_pipe();
    return cli_main(argc, argv);
}
