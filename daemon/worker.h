/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Blocking work outside the main thread. A worker gets a value, blocks in the kernel as long as that takes,
 * and leaves a value; all else belongs to the main thread. Each job has a thread of its own, because a write
 * can block for seconds and nothing else may wait for it. */
typedef struct _VgpuWorker VgpuWorker;
typedef struct _VgpuJob VgpuJob;

/* In the job's thread: changes @data, which nobody else touches meanwhile. */
typedef void (*VgpuJobFunc)(VgpuJob *job, gpointer data);
/* In the main thread, when the function has returned. */
typedef void (*VgpuJobDone)(gpointer data, gpointer user_data);

/* The caller frees it after vgpu_worker_busy() became 0, or never. */
VgpuWorker *vgpu_worker_new(void);
void vgpu_worker_free(VgpuWorker *worker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuWorker, vgpu_worker_free)

/* Runs @func(@data), then @done(@data, @user_data) in the main thread's default context. Jobs of one @turn
 * (a card's address) run one after the other in the order of the calls; NULL waits for nobody. Call from the
 * main thread. */
void vgpu_worker_run(VgpuWorker *worker, const char *turn, VgpuJobFunc func, gpointer data, VgpuJobDone done,
                     gpointer user_data);

/* How many jobs have not called back yet. Main thread. */
guint vgpu_worker_busy(VgpuWorker *worker);

/* After this no waiting job is started any more: its function is passed over and it is never called back. */
void vgpu_worker_stop(VgpuWorker *worker);

/* After that: whether there are jobs that were never begun, whose data is nobody's to free. */
gboolean vgpu_worker_has_left_undone(VgpuWorker *worker);

/* From inside a job: writes @value to @fd in a child process that has nothing open but @fd and @keep_fd
 * (which may be -1), and waits for it. A write that never returns keeps only that child, which survives
 * this process and no signal ends. The job keeps its turn for @turn_ms milliseconds at the most. Returns 0 or
 * the positive errno of the write. */
int vgpu_job_write_in_child(VgpuJob *job, int fd, int keep_fd, const char *value, guint turn_ms);
