/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent.h"
#include "failure.h"
#include "format.h"
#include "hold.h"
#include "json.h"
#include "show.h"
#include "signals.h"

/* Prints @text to be pasted, after @before. */
static bool
print_format(const char *before, char *text, GError **error)
{
    g_autofree char *owned = text;
    if (!owned) {
        g_set_error_literal(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                            "the service did not say where the device is");
        return false;
    }
    printf("%s%s\n", before, owned);
    return true;
}

static void
print_table(const VgpuInvocation *invocation, GVariant *assignment)
{
    VgpuTerminal terminal = vgpu_terminal_look();
    g_autoptr(GVariant) rows = g_variant_ref_sink(g_variant_new_array(NULL, &assignment, 1));
    vgpu_show_assignments(&terminal, invocation, rows, false);
}

static bool
print_assignment(const VgpuInvocation *invocation, GVariant *assignment, GError **error)
{
    if (invocation->json || invocation->format == VGPU_FORMAT_JSON) {
        vgpu_json_print(invocation->json ? invocation->json : VGPU_JSON_PRETTY, assignment);
        return true;
    }
    switch (invocation->format) {
    case VGPU_FORMAT_QEMU:
        return print_format("-device ", vgpu_format_qemu(assignment), error);
    case VGPU_FORMAT_LIBVIRT:
        return print_format("", vgpu_format_libvirt(assignment), error);
    case VGPU_FORMAT_TABLE:
    case VGPU_FORMAT_JSON:
        break;
    }
    print_table(invocation, assignment);
    return true;
}

static int
on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info, void *data)
{
    return sd_event_exit(sd_event_source_get_event(source), VGPU_EXIT_DONE);
}

static void
on_end(VgpuHold *hold, void *data)
{
    sd_event_exit(vgpu_hold_event(hold), vgpu_hold_verdict(hold));
}

/* What ends a hold: an interrupt, however it was started; a hang-up, unless nohup made it ignored. */
static sigset_t
interrupts(void)
{
    struct sigaction hangup = {0};
    sigset_t wanted;

    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(&wanted, SIGHUP);
    return wanted;
}

static void
announce(const VgpuInvocation *invocation, const VgpuHeld *held)
{
    fflush(stdout);
    sd_notifyf(0, "READY=1\nSTATUS=Holding assignment %s", held->id);
    if (!invocation->quiet && isatty(STDERR_FILENO))
        vgpu_say("holding it until interrupted");
}

static int
hold_until_interrupted(const VgpuInvocation *invocation, VgpuHold *hold, GError **error)
{
    sigset_t wanted = interrupts(), before;
    const VgpuHeld *held = vgpu_hold_held(hold)->pdata[0];
    sd_event *event = vgpu_hold_event(hold);

    int r = vgpu_signals_take(event, &wanted, on_interrupt, NULL, &before);
    if (r < 0) {
        vgpu_bus_set_error(error, NULL, r);
        return VGPU_EXIT_FAILED;
    }
    vgpu_hold_follow(hold, "", on_end, NULL);
    if (!print_assignment(invocation, held->assignment, error))
        return VGPU_EXIT_FAILED;
    sd_event_set_watchdog(event, true);
    announce(invocation, held);
    int verdict = sd_event_loop(event);

    sd_notify(0, "STOPPING=1");
    /* A second interrupt ends the waiting as well. */
    sigprocmask(SIG_SETMASK, &before, NULL);
    int ending = vgpu_hold_end(hold);
    if (verdict < 0)
        vgpu_bus_set_error(error, NULL, verdict);
    return verdict != VGPU_EXIT_DONE ? verdict : ending;
}

int
vgpu_assign_command(const VgpuInvocation *invocation, GError **error)
{
    g_autoptr(VgpuHold) hold = vgpu_hold_new(invocation, error);
    VgpuAgent *agent = hold ? vgpu_agent_start(invocation) : NULL;
    bool taken = hold && vgpu_hold_assign(hold, error);

    vgpu_agent_stop(agent);
    return taken ? hold_until_interrupted(invocation, hold, error) : VGPU_EXIT_FAILED;
}

int
vgpu_adopt_command(const VgpuInvocation *invocation, GError **error)
{
    g_autoptr(VgpuHold) hold = vgpu_hold_new(invocation, error);
    VgpuAgent *agent = hold ? vgpu_agent_start(invocation) : NULL;
    bool taken = hold && vgpu_hold_adopt(hold, vgpu_invocation_first(invocation), error);

    vgpu_agent_stop(agent);
    return taken ? hold_until_interrupted(invocation, hold, error) : VGPU_EXIT_FAILED;
}
