/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "service.h"

/* What the files of the service share: service.c has properties and signals, service-calls.c the method
 * calls. */
struct _VgpuService {
    sd_bus *bus;
    sd_bus_slot *object;
    VgpuAuthority *authority;
    VgpuOwners *owners;
    VgpuBroker *broker;
    VgpuSleep *sleep;
    guint max_pending;
    GPtrArray *calls; /* of Call, borrowed: each frees itself when its last step is done */
    gboolean stopped;

    /* What the bus was last told; NULL before the first look. */
    char *framework;
    GVariant *profiles;
    GVariant *gpus;
    GVariant *assignments;
    guint emit;             /* idle source that compares and signals */
    sd_bus_message *looked; /* the message that the last fresh look was for */
};

/* The methods, as sd-bus calls them. */
int service_method_assign(sd_bus_message *message, void *service, sd_bus_error *unused);
int service_method_plan(sd_bus_message *message, void *service, sd_bus_error *unused);
int service_method_release(sd_bus_message *message, void *service, sd_bus_error *unused);
int service_method_adopt(sd_bus_message *message, void *service, sd_bus_error *unused);
int service_method_reclaim(sd_bus_message *message, void *service, sd_bus_error *unused);

/* TRUE with BUSY when nothing may be started any more. */
gboolean service_is_stopping(const VgpuService *service, GError **error);

/* Answers all pending calls with @error; each frees itself when its last step is done. */
void service_answer_all(VgpuService *service, const GError *error);

/* Nobody is there any more to read the answers to @name's calls. */
void service_caller_left(VgpuService *service, const char *name);
