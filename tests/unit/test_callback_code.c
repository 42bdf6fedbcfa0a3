/*
 * Callbacks by the code of the functions that register them: code as debuggers show it for real
 * kernels, with the addresses of a forged one.
 *
 * Source of the instruction bytes: published disassembly of PsSetCreateProcessNotifyRoutine
 * (Windows 10), PsRemoveCreateThreadNotifyRoutine (Windows 11) and of the instruction that loads
 * PspCreateProcessNotifyRoutine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "forged.h"
#include "kda/callbacks.h"
#include "kernel/callback_int.h"

/* sub rsp,28h; mov al,dl; xor edx,edx; test al,al; setne dl; call; add rsp,28h; ret */
#define SET_PROCESS(to)                                                                            \
    "code PsSetCreateProcessNotifyRoutine 4883ec288ac233d284c00f95c2e8{" to "}4883c428c3\n"
/* xor r8d,r8d; jmp */
#define JUMP_PROCESS(to) "code PsSetCreateProcessNotifyRoutine 4533c0e9{" to "}\n"
/* push r15; sub rsp,20h; mov r15d,edx; lea r13,[array]; mov edi,40h; ret */
#define BODY(function, array) "code " function " 41574883ec20448bfa4c8d2d{" array "}bf40000000c3\n"
/* prologue; mov rsi,gs:188h; or r15d,-1; mov r14,rcx; add [rsi+1E4h],r15w; xor edi,edi; lea */
#define REMOVE_THREAD(array)                                                                       \
    "code PsRemoveCreateThreadNotifyRoutine "                                                      \
    "48895c240848896c24104889742418574156415748"                                                   \
    "83ec2065488b342588010000"                                                                     \
    "4183cfff4c8bf1664401bee401000033ff488d0d{" array "}c3\n"
/* sub rsp,28h; lea rcx,[array]; call */
#define SET_IMAGE(array)                                                                           \
    "code PsSetLoadImageNotifyRoutine 4883ec28488d0d{" array "}e8{EtwRegister}c3\n"
/* registry: two calls deep */
#define REGISTER_KEY                                                                               \
    "code CmRegisterCallbackEx 4883ec28e8{EtwUnregister}4883c428c3\n"                              \
    "code EtwUnregister 4883ec28e8{EtwWriteString}4883c428c3\n"

#define ARRAY "PspCreateProcessNotifyRoutine"

struct place {
    const char *add;
    enum kda_callback_kind kind;
    enum kda_symbol_id symbol; /* what it leads to; KDA_SYM_COUNT: nothing */
    const char *why;           /* a part of it, when nothing */
};

static const struct place places[] = {
    {SET_PROCESS("IoCreateDevice") BODY("IoCreateDevice", ARRAY), KDA_CALLBACK_PROCESS,
     KDA_SYM_PspCreateProcessNotifyRoutine, NULL},
    {JUMP_PROCESS("IoCreateDevice") BODY("IoCreateDevice", ARRAY), KDA_CALLBACK_PROCESS,
     KDA_SYM_PspCreateProcessNotifyRoutine, NULL},
    {REMOVE_THREAD("PspCreateThreadNotifyRoutine"), KDA_CALLBACK_THREAD,
     KDA_SYM_PspCreateThreadNotifyRoutine, NULL},
    {SET_IMAGE("PspLoadImageNotifyRoutine"), KDA_CALLBACK_IMAGE, KDA_SYM_PspLoadImageNotifyRoutine,
     NULL},
    {REGISTER_KEY BODY("EtwWriteString", "CallbackListHead"), KDA_CALLBACK_REGISTRY,
     KDA_SYM_CallbackListHead, NULL},
    /* Other data is no array: a list head, a global, an empty array. */
    {SET_IMAGE("CallbackListHead"), KDA_CALLBACK_IMAGE, KDA_SYM_COUNT, "names no place"},
    {SET_IMAGE("PsLoadedModuleList"), KDA_CALLBACK_IMAGE, KDA_SYM_COUNT, "names no place"},
    {SET_IMAGE("PsProcessType"), KDA_CALLBACK_IMAGE, KDA_SYM_COUNT, "names no place"},
    {"drop image\n" SET_IMAGE("PspLoadImageNotifyRoutine"), KDA_CALLBACK_IMAGE, KDA_SYM_COUNT,
     "names no place"},
    {REGISTER_KEY BODY("EtwWriteString", "PsActiveProcessHead"), KDA_CALLBACK_REGISTRY,
     KDA_SYM_COUNT, "names no place"},
    {REGISTER_KEY BODY("EtwWriteString", "PspCreateThreadNotifyRoutine"), KDA_CALLBACK_REGISTRY,
     KDA_SYM_COUNT, "names no place"},
    /* Two that could be it are none. */
    {SET_PROCESS("IoCreateDevice") "code IoCreateDevice "
                                   "488d0d{PspCreateProcessNotifyRoutine}"
                                   "488d15{PspCreateThreadNotifyRoutine}c3\n",
     KDA_CALLBACK_PROCESS, KDA_SYM_COUNT, "names 2 places"},
    /* Behind an instruction that is not known nothing is read; nor behind the function's end. */
    {SET_PROCESS("IoCreateDevice") "code IoCreateDevice c5f877488d0d{" ARRAY "}c3\n",
     KDA_CALLBACK_PROCESS, KDA_SYM_COUNT, "names no place"},
    {SET_PROCESS("IoCreateDevice") "code IoCreateDevice c3cccc488d0d{" ARRAY "}c3\n",
     KDA_CALLBACK_PROCESS, KDA_SYM_COUNT, "names no place"},
    {SET_PROCESS("IoCreateDevice") BODY("IoCreateDevice", ARRAY) "hole what=code:IoCreateDevice",
     KDA_CALLBACK_PROCESS, KDA_SYM_COUNT, "not in the image"},
    {SET_PROCESS("IoCreateDevice")
         BODY("IoCreateDevice", ARRAY) "hole what=code:PsSetCreateProcessNotifyRoutine",
     KDA_CALLBACK_PROCESS, KDA_SYM_COUNT, "not in the image"},
    {SET_PROCESS("IoCreateDevice")
         BODY("IoCreateDevice", ARRAY) "hole what=symbol:PspCreateProcessNotifyRoutine",
     KDA_CALLBACK_PROCESS, KDA_SYM_COUNT, "names no place"},
    {NULL, KDA_CALLBACK_PROCESS, KDA_SYM_COUNT, ""},
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static bool fits(struct forged *forged, const struct place *place)
{
    const struct kda_module *modules;
    struct kda_error err = {0};
    size_t count;
    uint64_t va = 1;
    assert_int_equal(kda_modules(forged->kernel, &modules, &count, NULL), KDA_OK);
    enum kda_status status = kda_callback_by_code(forged->kernel, place->kind, &va, &err);
    bool same = place->symbol == KDA_SYM_COUNT
                    ? status != KDA_OK && va == 1 && strstr(err.text, place->why)
                    : status == KDA_OK && va == kda_symbol_va(forged->kernel, place->symbol);
    if (!same)
        print_message("%s: 0x%llx %s\n", kda_status_name(status), (unsigned long long)va, err.text);
    return same;
}

static void test_places(void **state)
{
    unsigned failed = 0;
    (void)state;
    for (size_t i = 0; i < PLACES; i++) {
        struct forged forged;
        const char *add = places[i].add, *drop = NULL;
        if (add && strncmp(add, "drop image\n", 11) == 0) {
            drop = "callback image";
            add += 11;
        }
        char *text = forged_text("audit", drop, add);
        forged_open(&forged, text, true);
        free(text);
        if (!fits(&forged, &places[i])) {
            print_message("place %zu\n", i);
            failed++;
        }
        forged_close(&forged);
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
