#include "cli.h"

#include "term.h"

int main(int argc, char **argv)
{
    term_begin();
    term_arguments(&argc, &argv);
    return cli_main(argc, argv);
}
