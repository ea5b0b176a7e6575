"""Connections to a host of kind ``ssh``. Its host key is always verified."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from asterism.devices.kinds.ssh.shell import COMMAND, HostError, Shell, Sink
from asterism.errors import InvalidInput

if TYPE_CHECKING:
    import asyncssh

CONNECT_TIMEOUT_S = 15.0
KEEPALIVE_S, KEEPALIVES = 15.0, 3
"""Seconds between two keep-alive messages, and how many without an answer end a connection."""
SESSIONS = 8
"""Scripts at once over one connection: OpenSSH admits ten; beyond that another connection is opened."""

_OPEN_TRIES = 5
_FAILURE_S = 1.0
"""Seconds for which a failed connection is not tried again: many attempts may wait for it."""
_ADDRESS = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:@\[\]]+)(?::(?P<port>\d{1,5}))?")
_SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_CIPHERS = "^aes256-gcm@openssh.com,aes128-gcm@openssh.com"
"""Tried before the others: they take this process half the processor time of its library's first choice."""

T = TypeVar("T")


class Address(NamedTuple):
    """The address of a host; without user or port, those of the SSH configuration of this user."""

    host: str
    user: str = ""
    port: int = 0

    @classmethod
    def read(cls, text: str, key: str) -> Address:
        """Read ``user@host:port``. Raises InvalidInput that begins with the key."""
        found = _ADDRESS.fullmatch(text)
        port = int(found["port"] or 0) if found else 0
        if not found or found["host"].startswith("-") or port > 65535:  # noqa: PLR2004 - the highest port
            raise InvalidInput(f"{key}: {text!r} is not an address; write host, user@host or user@host:port")
        return cls(found["host"].strip("[]"), found["user"] or "", port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user + '@' if self.user else ''}{host}{f':{self.port}' if self.port else ''}"


class HostSettings(NamedTuple):
    """How to reach a host.

    Attributes:
        jump: hosts to go through, in order; by default those of the user's SSH configuration.
        known_hosts: file with the host keys.
        keys: files with private keys; by default the keys of the user and of the agent.
    """

    address: Address
    jump: tuple[Address, ...]
    known_hosts: Path
    keys: tuple[Path, ...]


class _Link:
    """A connection, how many sessions it has, of at most how many, and the shells among them that run no script."""

    def __init__(self, connection: asyncssh.SSHClientConnection, jumps: list[asyncssh.SSHClientConnection]) -> None:
        self.connection = connection
        self.jumps = jumps
        self.idle: list[Shell] = []
        self.used = 0
        self.most = SESSIONS

    def close(self) -> None:
        for each in (self.connection, *reversed(self.jumps)):
            each.close()


class Host:
    """A host, and the connections to it, which are opened when they are needed."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._links: list[_Link] = []
        self._connecting = asyncio.Lock()
        self._failure: tuple[float, HostError] | None = None

    def __str__(self) -> str:
        return str(self._settings.address)

    async def connect(self) -> None:
        """Connect, unless a connection is there. Raises HostError."""
        async with self._connecting:
            if not self._open_links():
                await self._open()

    async def wait_lost(self) -> None:
        """Return when the first connection has ended."""
        if links := self._open_links():
            await links[0].connection.wait_closed()

    async def close(self) -> None:
        """Close the connections; attempts on the host go on."""
        links, self._links = self._links, []
        for link in links:
            link.close()
        for link in links:
            await link.connection.wait_closed()

    async def run(self, script: str, stdout: Sink, stderr: Sink) -> None:
        """Run a script to its end, and pass on its output as it comes.

        Cancelling it closes the streams of the script, which goes on.

        Raises:
            HostError: the connection was lost, or the host runs no script.
        """
        link, shell = self._idle() or await self._new_shell()
        is_idle = False
        try:
            is_idle = await shell.run(script, stdout, stderr)
        finally:
            self._release(link, shell, is_idle=is_idle)

    def _idle(self) -> tuple[_Link, Shell] | None:
        """Take a shell that runs no script."""
        for link in self._open_links():
            while link.idle:
                shell = link.idle.pop()
                if shell.is_open:
                    return link, shell
                self._release(link, shell, is_idle=False)
        return None

    async def _new_shell(self) -> tuple[_Link, Shell]:
        link, process = await self._session(lambda connection: connection.create_process(COMMAND, encoding=None))
        return link, Shell(str(self), process, (_asyncssh().Error, OSError))

    def _release(self, link: _Link, shell: Shell, *, is_idle: bool) -> None:
        """Keep a shell for the next script, or close it."""
        if is_idle:
            link.idle.append(shell)
        else:
            link.used -= 1
            shell.close()

    @contextlib.asynccontextmanager
    async def sftp(self) -> AsyncIterator[asyncssh.SFTPClient]:
        """Open a session of SFTP. Its end closes the files that are open in it.

        Raises:
            HostError: the connection was lost, also during the block; or the host refuses what the block asks for.
        """
        ssh = _asyncssh()
        link, client = await self._session(lambda connection: connection.start_sftp_client(), subsystem="SFTP")
        try:
            try:
                yield client
            finally:
                client.exit()
            await client.wait_closed()  # not after an error or a cancel: the host may have stopped answering
        except (ssh.SFTPConnectionLost, ssh.SFTPNoConnection, ssh.DisconnectError, ConnectionError) as error:
            raise HostError("lost", f"the connection to {self} was lost: {error}") from error
        except ssh.Error as error:
            raise HostError("refused", f"{self} answers to SFTP: {error}") from error
        finally:
            link.used -= 1

    async def _session(self, start: Callable[[asyncssh.SSHClientConnection], Awaitable[T]], subsystem: str = "") -> tuple[_Link, T]:
        """Start a session on a connection that has room for it, and count it there."""
        ssh = _asyncssh()
        for _ in range(_OPEN_TRIES):
            async with self._connecting:
                link = next((it for it in self._open_links() if it.used < it.most), None) or await self._open()
                link.used += 1
            started = False
            try:
                session = await start(link.connection)
                started = True
            except ssh.ChannelOpenError as error:
                if subsystem and error.code == ssh.OPEN_REQUEST_SESSION_FAILED:
                    raise HostError("refused", f"{self} has no {subsystem}, by which files are transferred: {error.reason}") from error
                if link.used == 1 and not link.connection.is_closed():
                    raise HostError("refused", f"{self} opens no session: {error.reason}") from error
                link.most = link.used - 1  # the host admits fewer
            except ssh.SFTPBadMessage as error:
                raise HostError("refused", f"{self} does not speak SFTP: {error}; a login script must print nothing") from error
            except (ssh.Error, OSError) as error:
                raise HostError("lost", f"the connection to {self} was lost: {error}") from error
            else:
                return link, session
            finally:
                link.used -= not started
        raise HostError("lost", f"{self} opens no further session")

    def _open_links(self) -> list[_Link]:
        self._links = [link for link in self._links if not link.connection.is_closed()]
        return self._links

    async def _open(self) -> _Link:
        now = asyncio.get_running_loop().time()
        if self._failure and now - self._failure[0] < _FAILURE_S:
            raise self._failure[1]
        try:
            link = await self._opened()
        except HostError as error:
            self._failure = (asyncio.get_running_loop().time(), error)
            raise
        self._failure = None
        self._links.append(link)
        return link

    async def _opened(self) -> _Link:
        """Open a connection, through the jump hosts."""
        ssh, (address, jump, known_hosts, keys) = _asyncssh(), self._settings
        options = self._options(ssh, known_hosts, keys)
        jumps: list[asyncssh.SSHClientConnection] = []
        at = address
        with contextlib.ExitStack() as failing:
            try:
                if not jump:  # a jump of the configuration is made here, so that its host key is verified in the same way
                    own = await _configured(ssh, address, options)
                    jump = tuple(Address.read(hop, "ProxyJump") for hop in own.tunnel.split(",")) if isinstance(own.tunnel, str) else ()
                for at in (*jump, address):
                    configured = (await _configured(ssh, at, options)).config.get("Ciphers")
                    ciphers = {} if configured else {"encryption_algs": _CIPHERS}
                    async with asyncio.timeout(CONNECT_TIMEOUT_S):
                        jumps.append(await ssh.connect(**_named(at), tunnel=jumps[-1] if jumps else None, **options, **ciphers))
                    failing.callback(jumps[-1].close)
            except (ssh.Error, ssh.ConfigParseError, InvalidInput, OSError, ValueError) as error:
                raise _refusal(ssh, error, at, known_hosts) from error
            failing.pop_all()
        return _Link(jumps.pop(), jumps)

    def _options(self, ssh: ModuleType, known_hosts: Path, keys: tuple[Path, ...]) -> dict[str, Any]:
        # Without these files, no host key is known: `known_hosts=None` would verify none.
        files = [str(file) for file in (known_hosts, _SYSTEM_KNOWN_HOSTS) if file.is_file()]
        options: dict[str, Any] = {
            "known_hosts": files or b"",
            # asyncssh bounds it by asyncio.wait_for, which in Python 3.11 loses a cancel that comes with the connection
            "connect_timeout": None,
            "login_timeout": CONNECT_TIMEOUT_S,
            "keepalive_interval": KEEPALIVE_S,
            "keepalive_count_max": KEEPALIVES,
        }
        for file in keys:
            try:
                options.setdefault("client_keys", []).append(ssh.read_private_key(file))
            except OSError as error:
                raise HostError("refused", f"the key {file} cannot be read: {error.strerror}") from error
            except ValueError as error:  # a KeyImportError is one
                raise HostError("refused", f"the key {file} cannot be used: {error}; add one with a passphrase to an agent") from error
        return options


async def _configured(ssh: ModuleType, at: Address, options: dict[str, Any]) -> Any:
    """Return the options of a connection, with those of the SSH configuration of this user."""
    return await ssh.SSHClientConnectionOptions.construct(config=(), **_named(at), **options)  # None would read no configuration


def _named(address: Address) -> dict[str, Any]:
    """Return an address as arguments of ``asyncssh.connect``; what is missing comes from the configuration."""
    return {name: value for name, value in (("host", address.host), ("username", address.user), ("port", address.port)) if value}


def _refusal(ssh: ModuleType, error: Exception, at: Address, known_hosts: Path) -> HostError:
    """Return why a host cannot be connected to."""
    match error:
        case ssh.HostKeyNotVerifiable():
            return HostError("refused", _unverified(ssh, at, known_hosts))
        case ssh.PermissionDenied():
            how = "put your public key into its ~/.ssh/authorized_keys, or name a key with `keys`"
            return HostError("refused", f"{at} refuses the login: {error.reason}; {how}")
        case TimeoutError():
            return HostError("lost", f"{at} cannot be reached: no answer within {CONNECT_TIMEOUT_S:g} s")
        case OSError():
            return HostError("lost", f"{at} cannot be reached: {error.strerror or error}")
        case ssh.ConfigParseError() | ValueError() | InvalidInput():
            return HostError("refused", f"the SSH configuration for {at} cannot be used: {error}")
        case _:
            return HostError("lost", f"{at} cannot be reached: {error}")


def _unverified(ssh: ModuleType, at: Address, known_hosts: Path) -> str:
    port = at.port if at.port not in {0, 22} else None
    known = any(ssh.match_known_hosts(str(known_hosts), at.host, "", port)[:2]) if known_hosts.is_file() else False
    name = f"[{at.host}]:{port}" if port else at.host
    add = f"ssh-keyscan {f'-p {port} ' if port else ''}{at.host} >> {known_hosts}"
    if not known:
        return f"the host key of {at} is not in {known_hosts}: compare its fingerprint with that on the host, and add it: {add}"
    remove = f"ssh-keygen -f {known_hosts} -R '{name}'"
    return (
        f"the host key of {at} is not the one in {known_hosts}: somebody may be between you and the host;"
        f" if you know that it has a new key, remove the old one and add it: {remove} && {add}"
    )


def is_installed() -> bool:
    """Return True if the library is there; it is not imported before the first connection."""
    try:
        return importlib.util.find_spec("asyncssh") is not None
    except ValueError:  # the import of it is blocked
        return False


def _asyncssh() -> ModuleType:
    return importlib.import_module("asyncssh")
