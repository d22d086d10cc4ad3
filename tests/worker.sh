#!/bin/sh
# Start one worker of the tests with processes of its own, as if it were alone on a machine: what another worker
# runs (engines, labs) is then neither seen nor signalled. Its first process waits for orphans as init does, and
# gives back the signals that a shell takes from what it starts in the background.
exec unshare --pid --fork --mount-proc --kill-child sh -c \
  'exec 3<&0; env --default-signal=INT,QUIT "$@" <&3 3<&- & wait $!' worker "$@"
