/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "authority.h"

#include "error.h"

#include <polkit/polkit.h>

struct _VgpuAuthority {
    PolkitAuthority *polkit; /* NULL until it was reached once */
};

typedef struct {
    VgpuAuthority *authority;
    PolkitSubject *subject;
    guint32 uid;
    char *action;
    PolkitDetails *details;
    gboolean interactive;
    gboolean after_dialog; /* a dialog has ended without permission: would there be one again? */
    guint waiting;
} Check;

static void
check_free(gpointer data)
{
    Check *check = data;

    g_object_unref(check->subject);
    g_object_unref(check->details);
    g_free(check->action);
    g_free(check);
}

static void
on_bus(GObject *source, GAsyncResult *result, gpointer user_data)
{
    g_autoptr(GDBusConnection) bus = g_bus_get_finish(result, NULL);

    /* GDBus would raise SIGTERM when the bus dies, and that would end the service as if it had been asked to.
     */
    if (bus)
        g_dbus_connection_set_exit_on_close(bus, FALSE);
}

VgpuAuthority *
vgpu_authority_new(void)
{
    VgpuAuthority *authority = g_new0(VgpuAuthority, 1);

    g_bus_get(G_BUS_TYPE_SYSTEM, NULL, on_bus, NULL);
    return authority;
}

void
vgpu_authority_free(VgpuAuthority *authority)
{
    g_clear_object(&authority->polkit);
    g_free(authority);
}

static void
deny(GTask *task, VgpuError code, const char *why)
{
    g_task_return_new_error(task, VGPU_ERROR, code, "%s", why);
    g_object_unref(task);
}

static void
allow(GTask *task)
{
    g_task_return_boolean(task, TRUE);
    g_object_unref(task);
}

/* Takes @task. */
static void
polkit_failed(GTask *task, const GError *failed)
{
    Check *check = g_task_get_task_data(task);
    g_autofree char *text = vgpu_text_printable(failed->message);

    if (g_error_matches(failed, G_IO_ERROR, G_IO_ERROR_CANCELLED) ||
        g_error_matches(failed, POLKIT_ERROR, POLKIT_ERROR_CANCELLED)) {
        deny(task, VGPU_ERROR_ACCESS_DENIED, "the question whether this is allowed was withdrawn");
        return;
    }
    if (check->uid == 0 && !check->after_dialog) {
        g_warning("polkit cannot be asked, root passes: %s", text);
        allow(task);
        return;
    }
    g_warning("polkit cannot be asked, uid %u is denied: %s", check->uid, text);
    deny(task, VGPU_ERROR_ACCESS_DENIED, "polkit could not say whether this is allowed, so it is not");
}

static void ask(GTask *task, gboolean interactive);

/* polkit lets us ask, and nobody has said yes: a wrong password, no answer in time, or an agent that has one
 * dialog open already and refuses a second. polkit keeps from us which of them it was. */
static void
deny_after_dialog(GTask *task)
{
    Check *check = g_task_get_task_data(task);
    g_autofree char *why =
        check->waiting > 0
            ? g_strdup_printf(
                  "the dialog that asked for permission ended without it, while another one of user "
                  "%u was open: answer that one first, then call again",
                  check->uid)
            : g_strdup(
                  "the dialog that asked for permission ended without it (a wrong password, or no answer in "
                  "time): call again to be asked again");

    deny(task, VGPU_ERROR_ACCESS_DENIED, why);
}

static void
on_checked(GObject *source, GAsyncResult *result, gpointer user_data)
{
    GTask *task = user_data;
    Check *check = g_task_get_task_data(task);
    g_autoptr(GError) failed = NULL;
    g_autoptr(PolkitAuthorizationResult) answer =
        polkit_authority_check_authorization_finish(POLKIT_AUTHORITY(source), result, &failed);

    if (!answer)
        polkit_failed(task, failed);
    else if (polkit_authorization_result_get_is_authorized(answer))
        allow(task);
    else if (polkit_authorization_result_get_dismissed(answer))
        deny(task, VGPU_ERROR_ACCESS_DENIED, "the dialog that asked for permission was dismissed");
    else if (!polkit_authorization_result_get_is_challenge(answer) && check->interactive &&
             !check->after_dialog) {
        /* A rule's no and a dialog without a yes look the same; without interaction they do not. */
        check->after_dialog = TRUE;
        ask(task, FALSE);
    } else if (!polkit_authorization_result_get_is_challenge(answer))
        deny(task, VGPU_ERROR_ACCESS_DENIED, "polkit does not allow this to the caller");
    else if (check->after_dialog)
        deny_after_dialog(task);
    else if (check->interactive)
        deny(task, VGPU_ERROR_ACCESS_DENIED,
             "a password is needed and there is no agent that could ask for it");
    else
        deny(task, VGPU_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED,
             "a password is needed: allow interactive authorization and call again");
}

static void
ask(GTask *task, gboolean interactive)
{
    Check *check = g_task_get_task_data(task);
    PolkitCheckAuthorizationFlags flags = interactive
                                              ? POLKIT_CHECK_AUTHORIZATION_FLAGS_ALLOW_USER_INTERACTION
                                              : POLKIT_CHECK_AUTHORIZATION_FLAGS_NONE;

    polkit_authority_check_authorization(check->authority->polkit, check->subject, check->action,
                                         check->details, flags, g_task_get_cancellable(task), on_checked,
                                         task);
}

static void
on_polkit(GObject *source, GAsyncResult *result, gpointer user_data)
{
    GTask *task = user_data;
    Check *check = g_task_get_task_data(task);
    g_autoptr(GError) failed = NULL;
    g_autoptr(PolkitAuthority) polkit = polkit_authority_get_finish(result, &failed);

    if (!polkit) {
        polkit_failed(task, failed);
        return;
    }
    g_set_object(&check->authority->polkit, polkit);
    ask(task, check->interactive);
}

void
vgpu_authority_check_async(VgpuAuthority *authority, const VgpuCaller *caller,
                           const VgpuAuthorityQuestion *question, GCancellable *cancellable,
                           GAsyncReadyCallback callback, gpointer user_data)
{
    GTask *task = g_task_new(NULL, cancellable, callback, user_data);
    Check *check = g_new0(Check, 1);

    /* A polkit that answers after the cancellation must not count. */
    g_task_set_check_cancellable(task, FALSE);
    check->authority = authority;
    check->subject = polkit_system_bus_name_new(caller->name);
    check->uid = caller->uid;
    check->action = g_strdup(question->action);
    check->interactive = question->interactive;
    check->waiting = question->waiting;
    check->details = polkit_details_new();
    if (question->profile)
        polkit_details_insert(check->details, "profile", question->profile);
    if (question->gpu)
        polkit_details_insert(check->details, "gpu", question->gpu);
    g_task_set_task_data(task, check, check_free);
    if (authority->polkit)
        ask(task, check->interactive);
    else
        polkit_authority_get_async(cancellable, on_polkit, task);
}

gboolean
vgpu_authority_check_finish(GAsyncResult *result, GError **error)
{
    return g_task_propagate_boolean(G_TASK(result), error);
}
