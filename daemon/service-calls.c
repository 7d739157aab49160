/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Method calls that cannot be answered at once: who calls, whether that is allowed, and then what the broker
 * says. */
#include "service-internal.h"

#include "bus.h"
#include "describe.h"
#include "error.h"
#include "options.h"

#include <string.h>

#define ACTION_ASSIGN "org.hypeman.VGPU1.assign"
#define ACTION_MANAGE "org.hypeman.VGPU1.manage"

#define ADOPT_TRIES 20
#define ADOPT_PAUSE_MS 20

typedef enum { CALL_ASSIGN, CALL_PLAN, CALL_RELEASE, CALL_ADOPT, CALL_RECLAIM } CallKind;

/* A method call that cannot be answered at once. */
typedef struct {
    VgpuService *service;
    CallKind kind;
    sd_bus_message *message;
    VgpuRequest *request; /* of Assign */
    char *argument;       /* id or device of the others */
    char *sender;
    VgpuCaller *caller; /* NULL until the bus said who it is */
    GCancellable *cancellable;
    gboolean allowed;  /* polkit said yes */
    gboolean pending;  /* a person may be asked: counts in its uid's limit */
    guint tries;       /* of Adopt */
    gboolean answered; /* by vgpu_service_stop(), or its caller left */
} Call;

static void
call_free(Call *call)
{
    g_ptr_array_remove_fast(call->service->calls, call);
    vgpu_owners_drop(call->service->owners, call->sender);
    sd_bus_message_unref(call->message);
    g_clear_pointer(&call->request, vgpu_request_free);
    g_clear_pointer(&call->caller, vgpu_caller_free);
    g_clear_object(&call->cancellable);
    g_free(call->argument);
    g_free(call->sender);
    g_free(call);
}

static int
reply_error(sd_bus_message *message, const GError *error)
{
    const char *name = error->domain == VGPU_ERROR ? vgpu_error_bus_name((VgpuError)error->code) : NULL;
    g_autofree char *text = vgpu_text_printable(error->message);

    return sd_bus_reply_method_errorf(message, name ? name : vgpu_error_bus_name(VGPU_ERROR_DEVICE_FAILED),
                                      "%s", text);
}

/* Answers with @error, or with what the method returns: @id and @row, each unless it is NULL. */
static void
answer_with(Call *call, const char *id, GVariant *row, const GError *error)
{
    g_autoptr(sd_bus_message) reply = NULL;
    int r;

    if (call->answered)
        return;
    call->answered = TRUE;
    if (error) {
        reply_error(call->message, error);
        return;
    }
    r = sd_bus_message_new_method_return(call->message, &reply);
    if (r >= 0 && id)
        r = sd_bus_message_append(reply, "s", id);
    if (r >= 0 && row)
        r = vgpu_bus_append(reply, row);
    if (r >= 0)
        r = sd_bus_send(NULL, reply, NULL);
    if (r < 0)
        g_warning("a reply could not be sent: %s", g_strerror(-r));
}

/* Answers with @error, or with @assignment in the shape of the method. */
static void
answer(Call *call, const VgpuAssignment *assignment, const GError *error)
{
    g_autoptr(GVariant) row = NULL;

    if (!error && (call->kind == CALL_ASSIGN || call->kind == CALL_ADOPT))
        row = g_variant_ref_sink(vgpu_describe_assignment(assignment));
    answer_with(call, row && call->kind == CALL_ASSIGN ? assignment->id : NULL, row, error);
}

static void
refuse(Call *call, const GError *error)
{
    answer(call, NULL, error);
    call_free(call);
}

static void
on_broker_done(const VgpuAssignment *assignment, const GError *error, gpointer user_data)
{
    Call *call = user_data;

    answer(call, assignment, error);
    call_free(call);
}

static void
plan(Call *call)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) row = vgpu_broker_plan(call->service->broker, call->request, &error);

    if (row)
        g_variant_ref_sink(row);
    answer_with(call, NULL, row, error);
    call_free(call);
}

static void perform(Call *call);
static void check_own(Call *call);

/* The service itself was looking whether the device is free, which takes it for an instant. */
static gboolean
on_perform_again(gpointer user_data)
{
    Call *call = user_data;

    if (call->answered)
        call_free(call);
    else if (call->allowed)
        perform(call);
    else
        check_own(call); /* it may be another user's by now */
    return G_SOURCE_REMOVE;
}

static void
perform(Call *call)
{
    VgpuBroker *broker = call->service->broker;
    g_autoptr(GError) error = NULL;
    const VgpuAssignment *assignment;

    switch (call->kind) {
    case CALL_ASSIGN:
        if (vgpu_sleep_is_near(call->service->sleep)) {
            g_set_error(&error, VGPU_ERROR, VGPU_ERROR_BUSY,
                        "the host prepares to sleep: try again when it is awake");
            refuse(call, error);
            break;
        }
        vgpu_broker_assign(broker, call->caller, call->request, on_broker_done, call);
        break;
    case CALL_PLAN:
        plan(call);
        break;
    case CALL_RELEASE:
        vgpu_broker_release(broker, call->argument, on_broker_done, call);
        break;
    case CALL_ADOPT:
        assignment = vgpu_broker_adopt(broker, call->argument, call->caller, &error);
        if (g_error_matches(error, VGPU_ERROR, VGPU_ERROR_BUSY) && call->tries++ < ADOPT_TRIES)
            g_timeout_add(ADOPT_PAUSE_MS, on_perform_again, call);
        else
            on_broker_done(assignment, error, call);
        break;
    case CALL_RECLAIM:
        vgpu_broker_reclaim(broker, call->argument, call->caller, on_broker_done, call);
        break;
    }
}

static void
on_authorized(GObject *source, GAsyncResult *result, gpointer user_data)
{
    Call *call = user_data;
    g_autoptr(GError) error = NULL;

    call->pending = FALSE;
    if (!vgpu_authority_check_finish(result, &error))
        refuse(call, error);
    else if (call->answered) /* the caller has left, or the service stops: a late yes means nothing */
        call_free(call);
    else {
        call->allowed = TRUE;
        perform(call);
    }
}

/* How many calls of its uid wait for polkit. */
static guint
count_pending(const Call *call)
{
    const GPtrArray *calls = call->service->calls;
    guint pending = 0;

    for (guint i = 0; i < calls->len; i++) {
        const Call *other = g_ptr_array_index(calls, i);
        pending += other->pending && other->caller->uid == call->caller->uid;
    }
    return pending;
}

static gboolean
too_many_pending(const Call *call, guint pending, GError **error)
{
    if (call->caller->uid == 0 || pending < call->service->max_pending)
        return FALSE;
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_LIMITS_EXCEEDED,
                "user %u has %u calls waiting for authorization already: let them end first",
                call->caller->uid, pending);
    return TRUE;
}

/* Asks polkit for @action; goes on in perform(). */
static void
authorize(Call *call, const char *action, const char *profile)
{
    VgpuAuthorityQuestion question = {
        .action = action,
        .interactive = sd_bus_message_get_allow_interactive_authorization(call->message) > 0,
        .profile = profile,
        .gpu = call->request ? call->request->gpu : NULL,
        .waiting = count_pending(call),
    };
    g_autoptr(GError) error = NULL;

    if (too_many_pending(call, question.waiting, &error)) {
        refuse(call, error);
        return;
    }
    call->pending = TRUE;
    vgpu_authority_check_async(call->service->authority, call->caller, &question, call->cancellable,
                               on_authorized, call);
}

static void
check_assign(Call *call)
{
    g_autoptr(GError) error = NULL;

    if (vgpu_broker_is_at_limit(call->service->broker, call->caller->uid, &error) ||
        !vgpu_broker_check(call->service->broker, call->request, &call->request->asked, &error))
        refuse(call, error);
    else
        authorize(call, ACTION_ASSIGN, call->request->asked);
}

/* Release and Adopt are free for the owner and its uid. */
static void
check_own(Call *call)
{
    g_autoptr(GError) error = NULL;
    const VgpuAssignment *assignment = vgpu_broker_find(call->service->broker, call->argument, &error);

    if (!assignment)
        refuse(call, error);
    else if (assignment->uid == call->caller->uid)
        perform(call);
    else
        authorize(call, ACTION_MANAGE, assignment->device->name);
}

static void
on_identified(VgpuCaller *caller, gboolean gone, gpointer user_data)
{
    Call *call = user_data;

    call->caller = caller;
    if (!caller && !gone) {
        g_autoptr(GError) error = NULL;

        g_set_error(&error, VGPU_ERROR, VGPU_ERROR_LIMITS_EXCEEDED,
                    "the bus is too busy to say who calls: try again later");
        refuse(call, error);
        return;
    }
    if (!caller || call->answered) { /* nobody is there to read an answer */
        call_free(call);
        return;
    }
    if (call->request)
        call->request->for_root = caller->uid == 0;
    switch (call->kind) {
    case CALL_ASSIGN:
        check_assign(call);
        break;
    case CALL_PLAN:
        perform(call);
        break;
    case CALL_RELEASE:
    case CALL_ADOPT:
        check_own(call);
        break;
    case CALL_RECLAIM:
        authorize(call, ACTION_MANAGE, NULL);
        break;
    }
}

/* Takes @request; the call lives on until it is answered. */
static int
start_call(VgpuService *service, CallKind kind, sd_bus_message *message, VgpuRequest *request,
           const char *argument)
{
    Call *call = g_new0(Call, 1);
    int r;

    call->service = service;
    call->kind = kind;
    call->message = sd_bus_message_ref(message);
    call->request = request;
    call->argument = g_strdup(argument);
    call->sender = g_strdup(sd_bus_message_get_sender(message));
    call->cancellable = g_cancellable_new();
    g_ptr_array_add(service->calls, call);
    r = vgpu_owners_hold(service->owners, call->sender);
    if (r >= 0)
        r = vgpu_owners_identify(service->owners, call->sender, on_identified, call);
    if (r < 0) {
        call_free(call);
        return r;
    }
    return 1;
}

gboolean
service_is_stopping(const VgpuService *service, GError **error)
{
    if (service->broker && !service->stopped)
        return FALSE;
    vgpu_error_set_stopping(error);
    return TRUE;
}

static int
start_call_with_request(VgpuService *service, CallKind kind, sd_bus_message *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(VgpuRequest) request = NULL;

    if (service_is_stopping(service, &error))
        return reply_error(message, error);
    request = vgpu_options_read(message, &error);
    if (!request)
        return reply_error(message, error);
    return start_call(service, kind, message, g_steal_pointer(&request), NULL);
}

int
service_method_assign(sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
    return start_call_with_request(user_data, CALL_ASSIGN, message);
}

int
service_method_plan(sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
    return start_call_with_request(user_data, CALL_PLAN, message);
}

static int
start_call_with_string(VgpuService *service, CallKind kind, sd_bus_message *message)
{
    g_autoptr(GError) error = NULL;
    const char *argument;
    int r;

    if (service_is_stopping(service, &error))
        return reply_error(message, error);
    r = sd_bus_message_read(message, "s", &argument);
    return r < 0 ? r : start_call(service, kind, message, NULL, argument);
}

int
service_method_release(sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
    return start_call_with_string(user_data, CALL_RELEASE, message);
}

int
service_method_adopt(sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
    return start_call_with_string(user_data, CALL_ADOPT, message);
}

int
service_method_reclaim(sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
    return start_call_with_string(user_data, CALL_RECLAIM, message);
}

void
service_answer_all(VgpuService *service, const GError *error)
{
    for (guint i = 0; i < service->calls->len; i++) {
        Call *call = g_ptr_array_index(service->calls, i);

        answer(call, NULL, error);
        g_cancellable_cancel(call->cancellable);
    }
}

void
service_caller_left(VgpuService *service, const char *name)
{
    for (guint i = 0; i < service->calls->len; i++) {
        Call *call = g_ptr_array_index(service->calls, i);

        if (strcmp(call->sender, name) != 0)
            continue;
        call->answered = TRUE; /* nobody is there to read it */
        g_cancellable_cancel(call->cancellable);
    }
}

void
vgpu_service_end(VgpuService *service)
{
    while (service->calls->len > 0)
        call_free(g_ptr_array_index(service->calls, 0));
}
