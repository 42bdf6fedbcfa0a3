/*
 * kda_settings.h - what the driver and the tool both know about the settings of the driver: kinds
 * there are to record, and the rules in force where the registry names none. docs/settings.md.
 */
#ifndef KDA_SETTINGS_H
#define KDA_SETTINGS_H

#include "kda_event.h"

#define KDA_SETTINGS_KIND(kind) (1u << KDA_KIND_##kind)

/* Kinds that the driver can record. Not: what only other sources have. */
#define KDA_SETTINGS_KINDS                                                                         \
    (KDA_SETTINGS_KIND(PROCESS_CREATE) | KDA_SETTINGS_KIND(PROCESS_EXIT) |                         \
     KDA_SETTINGS_KIND(PROCESS_EXISTING) | KDA_SETTINGS_KIND(THREAD_CREATE) |                      \
     KDA_SETTINGS_KIND(THREAD_EXIT) | KDA_SETTINGS_KIND(IMAGE_LOAD) |                              \
     KDA_SETTINGS_KIND(NETWORK_CONNECT) | KDA_SETTINGS_KIND(NETWORK_ACCEPT) |                      \
     KDA_SETTINGS_KIND(NETWORK_ATTEMPT) | KDA_SETTINGS_KIND(NETWORK_LISTEN) |                      \
     KDA_SETTINGS_KIND(NETWORK_EXISTING) | KDA_SETTINGS_KIND(REGISTRY_KEY_CREATE) |                \
     KDA_SETTINGS_KIND(REGISTRY_KEY_DELETE) | KDA_SETTINGS_KIND(REGISTRY_KEY_RENAME) |             \
     KDA_SETTINGS_KIND(REGISTRY_VALUE_SET) | KDA_SETTINGS_KIND(REGISTRY_VALUE_DELETE))
/* Those of them that are on where `Kinds` is not set. */
#define KDA_SETTINGS_DEFAULT_KINDS (KDA_SETTINGS_KINDS & ~KDA_SETTINGS_KIND(NETWORK_ATTEMPT))

#define KDA_SETTINGS_MAX_RULES 64u

/* R(text): what makes the registry and image volume of a workstation bearable. Application hives
 * are state stores of packaged applications, rewritten all the time; the activity moderator writes
 * a value for each program in the foreground, each time; DHCP renews; every process maps the same
 * three images. */
#define KDA_SETTINGS_DEFAULT_RULES(R)                                                              \
    R("exclude kind=registry.* key=\\REGISTRY\\A\\")                                               \
    R("exclude kind=registry.* "                                                                   \
      "key=\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\bam\\State\\")                    \
    R("exclude kind=registry.* "                                                                   \
      "key=\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\Tcpip\\Parameters\\Interfaces"    \
      "\\ image=\\System32\\svchost.exe")                                                          \
    R("exclude kind=image.load module=\\System32\\ntdll.dll")                                      \
    R("exclude kind=image.load module=\\System32\\kernel32.dll")                                   \
    R("exclude kind=image.load module=\\System32\\KernelBase.dll")                                 \
    R("exclude kind=image.load module=\\SysWOW64\\ntdll.dll")                                      \
    R("exclude kind=image.load module=\\SysWOW64\\kernel32.dll")                                   \
    R("exclude kind=image.load module=\\SysWOW64\\KernelBase.dll")

#endif
