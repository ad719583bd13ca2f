/* turn.c: locks and unlocks the file (turn.h). The caller holds a lock of its
 * own, under which no call waits. */
#include "runtime/base/turn.h"

#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

warm_status wm_turn_open(wm_turn *turn, const wm_options *options)
{
    warm_status status = WARM_OK;

    if (options->pin_lock_file[0] != '\0') {
        /* To read: the file may be another user's. */
        status = wm_named_file_open("pin_lock_file", options->pin_lock_file,
                                    O_RDONLY, false, &turn->fd);
        turn->on = status == WARM_OK;
    }
    if (turn->on) {
        turn->id = wm_named_file_id(turn->fd);
    }
    return status;
}

/* A program may have closed our file, and have got its number for another. */
static bool is_ours(const wm_turn *turn)
{
    return wm_named_file_is(turn->fd, &turn->id);
}

void wm_turn_close(wm_turn *turn)
{
    if (turn->on && is_ours(turn)) {
        (void)close(turn->fd);
    }
    turn->on = false;
}

void wm_turn_forked(wm_turn *turn)
{
    wm_turn_close(turn);
}

/* 0, or errno: EWOULDBLOCK if another process has its turn. */
static int lock_file(const wm_turn *turn)
{
    int before = errno, error = 0;

    do {
        error = flock(turn->fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    } while (error == EINTR);
    errno = before;
    return error;
}

/* A file that cannot be locked any more holds nobody up. */
bool wm_turn_try_locked(wm_turn *turn)
{
    if (turn->on && turn->users == 0 && is_ours(turn) &&
        lock_file(turn) == EWOULDBLOCK) {
        return false;
    }
    turn->users++;
    return true;
}

void wm_turn_end_locked(wm_turn *turn)
{
    int before = errno;

    turn->users--;
    if (turn->on && turn->users == 0 && is_ours(turn)) {
        (void)flock(turn->fd, LOCK_UN);
    }
    errno = before;
}
