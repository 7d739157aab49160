/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct _VgpuWorker {
    GHashTable *turns; /* turn -> GQueue of jobs that wait; the turn is taken while the key is there */
    guint busy;
    gboolean stopped;
    gboolean refused; /* a job, since it was stopped */
};

struct _VgpuJob {
    VgpuWorker *worker;
    char *turn; /* NULL: none, or given up; main thread only */
    VgpuJobFunc func;
    gpointer data;
    VgpuJobDone done;
    gpointer user_data;
};

static void
queue_free(gpointer queue)
{
    g_queue_free(queue);
}

VgpuWorker *
vgpu_worker_new(void)
{
    VgpuWorker *worker = g_new0(VgpuWorker, 1);

    worker->turns = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, queue_free);
    return worker;
}

void
vgpu_worker_free(VgpuWorker *worker)
{
    g_hash_table_unref(worker->turns);
    g_free(worker);
}

guint
vgpu_worker_busy(VgpuWorker *worker)
{
    return worker->busy;
}

void
vgpu_worker_stop(VgpuWorker *worker)
{
    worker->stopped = TRUE;
}

gboolean
vgpu_worker_has_left_undone(VgpuWorker *worker)
{
    GHashTableIter iter;
    gpointer queue;

    g_hash_table_iter_init(&iter, worker->turns);
    while (g_hash_table_iter_next(&iter, NULL, &queue)) {
        if (!g_queue_is_empty(queue))
            return TRUE;
    }
    return worker->refused;
}

static void
call_main(GSourceFunc func, gpointer data)
{
    g_autoptr(GSource) source = g_idle_source_new();

    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, func, data, NULL);
    g_source_attach(source, NULL);
}

static void start(VgpuJob *job);

static void
give_up_turn(VgpuJob *job)
{
    VgpuWorker *worker = job->worker;
    g_autofree char *turn = g_steal_pointer(&job->turn);
    GQueue *queue;
    VgpuJob *next;

    if (!turn)
        return;
    queue = g_hash_table_lookup(worker->turns, turn);
    next = worker->stopped ? NULL : g_queue_pop_head(queue);
    if (next)
        start(next);
    else if (!worker->stopped)
        g_hash_table_remove(worker->turns, turn);
}

static gboolean
job_ended(gpointer data)
{
    VgpuJob *job = data;

    job->worker->busy--;
    give_up_turn(job);
    job->done(job->data, job->user_data);
    g_free(job);
    return G_SOURCE_REMOVE;
}

static gboolean
job_takes_long(gpointer data)
{
    give_up_turn(data);
    return G_SOURCE_REMOVE;
}

static gpointer
job_thread(gpointer data)
{
    VgpuJob *job = data;

    job->func(job, job->data);
    call_main(job_ended, job);
    return NULL;
}

static void
start(VgpuJob *job)
{
    job->worker->busy++;
    g_thread_unref(g_thread_new("vgpu-job", job_thread, job));
}

void
vgpu_worker_run(VgpuWorker *worker, const char *turn, VgpuJobFunc func, gpointer data, VgpuJobDone done,
                gpointer user_data)
{
    GQueue *queue = turn ? g_hash_table_lookup(worker->turns, turn) : NULL;
    VgpuJob *job;

    if (worker->stopped) {
        worker->refused = TRUE;
        return;
    }
    job = g_new0(VgpuJob, 1);
    job->worker = worker;
    job->turn = g_strdup(turn);
    job->func = func;
    job->data = data;
    job->done = done;
    job->user_data = user_data;
    if (queue) {
        g_queue_push_tail(queue, job);
        return;
    }
    if (turn)
        g_hash_table_insert(worker->turns, g_strdup(turn), g_queue_new());
    start(job);
}

/* After fork() in a threaded process: system calls only. Ends with the errno as exit status. */
G_GNUC_NORETURN static void
child_main(int fd, int keep_fd, const char *value, gsize length)
{
    int attribute = fcntl(fd, F_DUPFD, 3);
    int keep = keep_fd < 0 ? -1 : fcntl(keep_fd, F_DUPFD, 3);

    if (attribute < 0 || dup2(attribute, 0) < 0 || (keep >= 0 && dup2(keep, 1) < 0))
        _exit(errno);
    if (close_range(keep < 0 ? 1 : 2, ~0U, 0) < 0)
        _exit(errno);
    _exit(write(0, value, length) == (ssize_t)length ? 0 : errno);
}

int
vgpu_job_write_in_child(VgpuJob *job, int fd, int keep_fd, const char *value, guint turn_ms)
{
    gsize length = strlen(value);
    struct pollfd ended = {.events = POLLIN};
    siginfo_t info = {0};
    pid_t pid = fork();

    if (pid < 0)
        return errno;
    if (pid == 0)
        child_main(fd, keep_fd, value, length);
    ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (ended.fd < 0 || poll(&ended, 1, (int)turn_ms) == 0)
        call_main(job_takes_long, job);
    if (ended.fd >= 0)
        close(ended.fd);
    while (waitid(P_PID, pid, &info, WEXITED) < 0) {
        if (errno != EINTR)
            return errno;
    }
    return info.si_code == CLD_EXITED ? info.si_status : EINTR;
}
