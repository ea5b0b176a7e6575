"""The shell scripts that a host of kind ``ssh`` runs. They need POSIX ``sh`` and ``setsid``, and no Python.

An attempt is a folder ``~/.asterism/<sha256 of its key>``, with these files:

- ``pid``: process id and start of the supervisor that runs the program, or ``stopped``. Its creation
  (``O_EXCL``) takes the attempt: of several supervisors and a stop, the first one has it.
- ``out``, ``err``, ``end``: stdout, at most one byte more than its limit; the first 4 to 16 MiB of
  stderr; and the last 4 KiB of what follows.
- ``exit``: the exit code in a line, or ``full`` if stdout was too large.
- ``stopped``: it was stopped.
- ``in``, ``result``: the files that the program takes, in folders by digest, and the one that it writes.
- ``part-<token>``: a file that is being transferred to ``in``.

A session of SSH runs one script after the other (``session_script``). Its shell starts another shell
in a session of its own, which waits for the next script. That shell becomes the supervisor of an
attempt, and nothing of it is left for the next script. The first shell outlives it, and reports.

A script goes to the standard input of ``/bin/sh``: the shell of the user's login parses none of it,
and its length has no limit. The braces around it make the shell read the whole script before it
runs any of it, so a script that arrives in part does nothing.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence

BEGIN = b"asterism: begin"
"""First line of a script on stdout and on stderr; a login script of the user may print before it."""
STARTED, STATE = b"asterism: started", b"asterism: state "
"""Lines on stdout: the attempt was taken; its state, after which its stdout follows."""

_COMMON = r"""
set -f; b=; m=; home=$HOME/.asterism; d=$home/$name
[ -r /proc/self/stat ] && read -r b </proc/sys/kernel/random/boot_id
mark() { # m = start of process $1; empty if there is none, or a zombie
  m=
  if [ -r /proc/self/stat ]; then
    read -r m <"/proc/$1/stat" || m=
    case $m in *') '*) set -- ${m##*) } ;; *) m=; return ;; esac
    case $1 in Z | X) m= ;; *) m=${20}@$b ;; esac
  else
    m=$(ps -o lstart= -p "$1" | tr -s ' ' _)
  fi
}
"""

_SUPERVISOR = r"""
mark $$; set -C
{ echo "$$ $m" >"$d/pid"; } || exit 0
set +C
read -r _ <&4 & # holds what the session waits for: until the end, or until the client wants a report
exec 4<&- 6>&- >/dev/null 3>&-
{ {
  (program) 2>&3 3>&- </dev/null
  echo $? >"$d/code"
} | head -c $most >"$d/out" 3>&- &
  wait $!
  [ -s "$d/code" ] || { echo full >"$d/exit"; kill -9 -$$; }
} 3>&1 >/dev/null | { dd bs=4096 count=4096 >"$d/err"; [ -s "$d/code" ] || tail -c 4096 >"$d/end"; }
read -r c <"$d/code" && echo "$c" >"$d/exit"
kill -9 -$$
"""

_FOLLOW = r"""
nap() { sleep "$1" >/dev/null 3>&- || sleep 1 >/dev/null 3>&-; }
ours() { # pid is the supervisor, or the number of its group without it
  mark "$pid"
  [ "$m" = "$born" ] || { [ -z "$m" ] && [ "${born#*@}" = "$b" ]; }
}
group() { # a process of the group runs
  [ -r /proc/self/stat ] || { kill -0 "-$pid"; return; }
  set +f; set -- /proc/[0-9]*/stat; set -f
  for f in "$@"; do
    read -r m <"$f" || continue
    set -- ${m##*) }
    [ "$3" = "$pid" ] && case $1 in Z | X) ;; *) return 0 ;; esac
  done
  return 1
}
end_group() { # TERM, then KILL
  for how in TERM KILL; do
    kill -s $how -- "-$pid"; i=0
    while group; do [ $((i += 1)) -gt 40 ] && break; nap 0.1; done
    [ $i -gt 40 ] || return 0
  done
  return 1
}
prevent() { # nothing can start any more
  set -C
  if { echo stopped >"$d/pid"; }; then set +C; else set +C; return 1; fi
}
settled() { # s = state, if it has ended
  if read -r c <"$d/exit"; then s=$c
  elif [ -e "$d/stopped" ]; then s=stopped
  elif read -r pid born <"$d/pid"; then
    [ "$pid" = stopped ] && { s=stopped; return; }
    mark "$pid"
    [ "$m" = "$born" ] && return 1
    if read -r c <"$d/exit"; then s=$c; return; fi
    s=interrupted
    ours && end_group
    return 0
  elif [ $((absent += 1)) -gt 23 ]; then
    if prevent; then s=unstarted; else s=interrupted; fi
  else return 1
  fi
}
emit() { # what is new in err
  [ -s "$d/err" ] || return
  n=$(wc -c <"$d/err")
  [ "$n" -gt "$at" ] && { tail -c "+$((at + 1))" "$d/err" | head -c "$((n - at))" >&3; at=$n; }
}
watched() { # reports what happens until the end
  told=; t=0; absent=0
  while :; do
    settled && over=1 || over=
    [ -z "$told" ] && [ -s "$d/pid" ] && told=1 && echo 'asterism: started'
    emit
    [ -n "$over" ] && return
    echo || exit 0 # so that it ends when nobody reads it
    t=$((t + 1)); if [ $t -lt 20 ]; then nap 0.1; else nap 1; fi
  done
}
report() {
  emit; [ -s "$d/end" ] && cat "$d/end" >&3
  echo "asterism: state $s"
  [ -s "$d/out" ] && tail -c "+$((from + 1))" "$d/out"
}
"""

_START = r"""
command -v setsid >/dev/null || { echo 'asterism: state no setsid'; exit 0; }
mkdir -p -m 700 "$d" || { echo 'asterism: state unwritable'; exit 0; }
echo "$reported" >&6
[ -e "$d/pid" ] && exit 0
"""

_SESSION = r"""
exec 4<&0 5>&1 3>&2 2>/dev/null </dev/null
setsid=setsid; command -v setsid >/dev/null || setsid=
while :; do
  printf '\036%s\n' "$token"; printf '\036%s\n' "$token" >&3
  # ends when nothing holds 6 any more; a script writes at least one word to it
  request=$($setsid /bin/sh 6>&1 <&4 >&5 2>&3 3>&- 4<&- 5>&- &)
  set -- $request
  [ $# -gt 0 ] || exit 0
  [ $# -gt 3 ] || continue
  d=$home/$2 from=$3 at=$4 absent=0; shift 4
  settled || watched
  report
  if [ $# -gt 0 ]; then (cd "$home" && rm -rf -- "$@") >/dev/null 3>&- 4<&- 5>&- & fi
done
"""

_STOP = r"""
mkdir -p -m 700 "$d" || { echo 'asterism: state unwritable'; exit 0; }
i=0
while ! prevent && ! [ -s "$d/pid" ]; do [ $((i += 1)) -gt 50 ] && break; nap 0.1; done
if ! [ -s "$d/exit" ] && read -r pid born <"$d/pid" && [ "$pid" != stopped ]; then
  : >"$d/stopped"
  ours && { end_group || { echo "asterism: state runs $pid"; exit 0; }; }
fi
[ -s "$d/pid" ] && echo 'asterism: state stopped' || echo 'asterism: state unwritable'
"""

_AGED = r"""
cd "$home" || exit 0
for name in $(find . -name pid -mmin "+$minutes" | sed -n 's,^[.]/\([0-9a-f]*\)/pid$,\1,p'); do
  d=$home/$name; absent=0
  settled && [ -z "$(find "$d/exit" -mmin "-$minutes")" ] && rm -rf "$d"
done
for name in $(find . -name in -mmin "+$minutes" | sed -n 's,^[.]/\([0-9a-f]*\)/in$,\1,p'); do
  d=$home/$name # one without a pid has never started
  [ -e "$d/pid" ] || [ -n "$(find "$d" -mmin "-$minutes")" ] || rm -rf "$d"
done
"""


def folder_of(key: str) -> str:
    """Return the name of the folder of an attempt, below ``~/.asterism``."""
    return hashlib.sha256(key.encode()).hexdigest()


def session_script(token: str) -> str:
    """Return the script of a session: it runs one script after the other, with a byte and the token in a line before each."""
    return f"{{ token={shlex.quote(token)} name=;{_COMMON}{_FOLLOW}{_SESSION}}}\n"


def command_script(
    argv: Sequence[str], env: Mapping[str, str], folders: Iterable[str], limit_bytes: int, *, makes_file: bool = False
) -> str:
    """Return the part of a script that takes an attempt and runs its program.

    Args:
        argv: the program and its arguments.
        env: variables of the program.
        folders: its working folder in steps: each is relative to the one before, the first to the home.
        limit_bytes: limit of its stdout.
        makes_file: True if the program needs the folder ``result``.
    """
    steps = "".join(f"cd -- {shlex.quote(folder)} && " for folder in folders if folder)
    variables = "".join(f"export {name}={shlex.quote(value)} && " for name, value in env.items())
    made = 'mkdir -p -m 700 "$d/result" && ' if makes_file else ""
    program = f'program() {{ {made}cd -- "$HOME" && {steps}{variables}exec {shlex.join(argv)}; }}'
    return f"most={limit_bytes + 1}\n{program}{_SUPERVISOR}"


def start_script(key: str, script: str, clean: Iterable[str]) -> str:
    """Return the script that starts an attempt, unless it was started before; its session follows it, and reports its end."""
    return whole_script(f"reported={_reported(key, (0, 0), clean)}{_START}{script}", key)


def follow_script(key: str, seen: tuple[int, int], clean: Iterable[str]) -> str:
    """Return the script whose session follows an attempt; ``seen``: bytes of stdout and stderr that arrived."""
    missing = "[ -e \"$d/pid\" ] || { echo 'asterism: state missing'; exit 0; }"
    return whole_script(f"{missing}\necho {_reported(key, seen, clean)} >&6", key)


def stop_script(key: str) -> str:
    """Return the script that ends an attempt, or prevents its start."""
    return whole_script(_STOP, key, _COMMON + _FOLLOW)


def home_script() -> str:
    """Return the script that reports the folder of all attempts, as the state ``home PATH``."""
    return whole_script('echo "asterism: state home $home"')


def aged_script(keep_s: float) -> str:
    """Return the script that removes the folders of attempts that ended more than ``keep_s`` ago."""
    return whole_script(f"minutes={max(1, round(keep_s / 60))}{_AGED}", "", _COMMON + _FOLLOW)


def is_exit_code(state: str) -> bool:
    """Return whether a state is the exit code of a program; a host may answer any digits."""
    return len(state) <= 3 and state.isascii() and state.isdecimal()  # noqa: PLR2004 - at most 255


def whole_script(body: str, key: str = "", functions: str = _COMMON) -> str:
    """Return a script that begins with the line ``BEGIN`` on stdout and stderr."""
    begin = f"exec 4<&0 3>&2 2>/dev/null </dev/null; echo . >&6; echo; echo '{BEGIN.decode()}'; echo '{BEGIN.decode()}' >&3"
    return f"{{ {begin}\nname={folder_of(key)}{functions}{body}\nexit 0; }}\n"


def _reported(key: str, seen: tuple[int, int], clean: Iterable[str]) -> str:
    """Return what a session is asked: to report this attempt, from these bytes, and to remove the folders of others."""
    return shlex.quote(" ".join([folder_of(key), *map(str, seen), *map(folder_of, clean)]))
