"""The database file: its tables, its versions, and opening it with clear words when that cannot work.

`PRAGMA application_id` says that a file is ours; `PRAGMA user_version` says which schema it has. Version n is reached
from version n - 1 by one entry of `MIGRATIONS`, inside one transaction.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from ...common.errors import DatabaseError

APPLICATION = 0x54494C45  # "TILE"
BUSY_SECONDS = 30.0  # how long a writer waits for another process

_FIRST = """
CREATE TABLE program (
    key TEXT PRIMARY KEY,
    family TEXT NOT NULL,
    text TEXT NOT NULL,             -- canonical
    display TEXT NOT NULL           -- in the person's own names
) WITHOUT ROWID;
CREATE INDEX program_family ON program (family);
CREATE TABLE target (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sketch (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE machine (key TEXT PRIMARY KEY, identity TEXT NOT NULL, ceilings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    request TEXT NOT NULL,          -- JSON: the same request continues a run that was cut short
    owner TEXT NOT NULL,            -- host/process that works on it
    state TEXT NOT NULL,            -- running, interrupted, finished
    started REAL NOT NULL,
    spent REAL NOT NULL             -- seconds of work, without pauses
) WITHOUT ROWID;
CREATE INDEX run_task ON run (task);
CREATE TABLE record (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    program TEXT NOT NULL REFERENCES program (key),
    target TEXT NOT NULL REFERENCES target (key),
    threads INTEGER NOT NULL,
    sketch TEXT NOT NULL REFERENCES sketch (key),
    config TEXT NOT NULL,           -- canonical JSON
    builder TEXT NOT NULL,
    machine TEXT NOT NULL REFERENCES machine (key),
    run TEXT NOT NULL REFERENCES run (id),
    purpose TEXT NOT NULL,          -- search, confirm
    status TEXT NOT NULL,
    times TEXT NOT NULL,            -- JSON: seconds, one entry for each repeat
    seconds REAL,                   -- their median; null when it failed
    abandoned INTEGER NOT NULL,
    stage TEXT NOT NULL,            -- where it failed, and why
    message TEXT NOT NULL,
    compile_seconds REAL NOT NULL,
    check_seconds REAL NOT NULL,
    measure_seconds REAL NOT NULL,
    device TEXT NOT NULL,
    created REAL NOT NULL,
    elapsed REAL NOT NULL,          -- seconds since the run began
    UNIQUE (task, sketch, config, builder, machine, purpose)
);
CREATE INDEX record_best ON record (task, seconds);
CREATE INDEX record_run ON record (run);
CREATE INDEX record_program ON record (program);
"""

_ROUNDS = """
CREATE TABLE round (
    run TEXT NOT NULL REFERENCES run (id),
    number INTEGER NOT NULL,
    figures TEXT NOT NULL,          -- JSON: what the model said of a batch against what was measured
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
"""

_ACCURACY = "ALTER TABLE record ADD COLUMN accuracy TEXT NOT NULL DEFAULT 'default';"

_IN_MODEL = "ALTER TABLE record ADD COLUMN in_model INTEGER NOT NULL DEFAULT 0;"

_SITTINGS = """
CREATE TABLE sitting (
    run TEXT PRIMARY KEY REFERENCES run (id),
    began REAL NOT NULL,
    facts TEXT NOT NULL             -- JSON, for who watches: budget, workers, the kernel's name and place in a model
) WITHOUT ROWID;
"""

# How many records each task has, and the last of them, without a look at all of them; and the fastest of each task first.
_TALLY = """
CREATE TABLE tally (
    task TEXT PRIMARY KEY,
    searched INTEGER NOT NULL,      -- trials of searches
    last INTEGER NOT NULL           -- the highest id
) WITHOUT ROWID;
INSERT INTO tally SELECT task, sum(purpose = 'search'), max(id) FROM record GROUP BY task;
CREATE TRIGGER record_counted AFTER INSERT ON record BEGIN
    INSERT INTO tally VALUES (new.task, new.purpose = 'search', new.id)
    ON CONFLICT (task) DO UPDATE SET searched = searched + excluded.searched, last = max(last, excluded.last);
END;
CREATE INDEX record_fastest ON record (task, purpose, seconds);
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _ROUNDS, _ACCURACY, _SITTINGS, _TALLY, _IN_MODEL)
VERSION = len(MIGRATIONS)
READABLE = 2  # the oldest version that can be read as it is, where it cannot be written


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens the file, makes it if it does not exist, brings an older schema up to date.

    Raises:
        DatabaseError: the folder is missing, the file is no database or not ours, its schema is newer, or it cannot be
            written (unless `read_only`).
    """
    if path.is_dir():
        raise DatabaseError("the database is a folder", expected="a file", found=str(path), advice="give a file name")
    if path.exists() and not path.is_file():
        raise DatabaseError(
            "the database is no file", expected="a plain file", found=str(path), advice="give another --db"
        )
    if read_only and path.exists() and path.stat().st_size == 0:
        raise DatabaseError("the database is empty", found=str(path), advice="run `tune run` first or check --db")
    if read_only and not path.exists():
        raise DatabaseError("there is no such database", found=str(path), advice="run `tune run` first or check --db")
    if not path.parent.is_dir():
        advice = f"create it (mkdir -p {path.parent}) or give another --db"
        raise DatabaseError("the database's folder does not exist", found=str(path.parent), advice=advice)
    try:
        return _connect_read_only(path) if read_only else _connect(path)
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        _check_ours(connection, path)
        _use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing that was committed
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")  # fails here, not after the first trial, when the file is read-only
        _migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_read_only(path: Path) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        version = _check_ours(connection, path)
    except sqlite3.OperationalError:  # a log cannot be opened in a read-only folder: then nobody writes either
        connection.close()
        connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True, isolation_level=None)
        version = _check_ours(connection, path)
    if version < READABLE:
        connection.close()
        advice = "open it once where it can be written (any `tune run` does)"
        raise DatabaseError(
            "the database has an older schema", expected=f"{READABLE} or more", found=str(version), advice=advice
        )
    return connection


def _check_ours(connection: sqlite3.Connection, path: Path) -> int:
    """The schema's version (0: empty file). Raises where the file is not ours or newer than this program."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    # tables first: they come with the id in one transaction, which another process may just be committing
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if tables and application != APPLICATION:
        raise DatabaseError(
            "the file is a database of another program",
            found=str(path),
            advice="give another --db; it was left as it is",
        )
    if version > VERSION:
        raise DatabaseError(
            "the database has a newer schema than this version of Tilesmith knows",
            expected=f"{VERSION} or less",
            found=f"{version} in {path}",
            advice="upgrade Tilesmith, or give another --db",
        )
    return version


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switching needs the file alone for a moment, and SQLite does not wait for that by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection) -> None:
    """Runs what is missing, inside the caller's transaction (another process may have been faster)."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == VERSION:
        return
    for script in MIGRATIONS[version:]:
        for statement in _statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _statements(script: str) -> list[str]:
    """The statements one by one: `executescript` would commit the transaction. Each ends a line."""
    found, begun = [], ""
    for line in script.splitlines():
        begun += line.split("--")[0] + "\n"
        if sqlite3.complete_statement(begun):
            found.append(begun)
            begun = ""
    return found


def explain(error: sqlite3.Error, path: Path) -> DatabaseError:
    """SQLite's error in words that say what to do."""
    text = str(error)
    if "not a database" in text or "malformed" in text:
        advice = "give another --db; the file was left as it is"
        return DatabaseError(
            "the file is not a database", expected="a Tilesmith database", found=str(path), advice=advice
        )
    if "readonly" in text or "read-only" in text:
        advice = "make it writable or give another --db"
        return DatabaseError("the database cannot be written", found=f"{path} is read-only", advice=advice)
    if "locked" in text:
        advice = "another process holds it; end that one or give another --db"
        return DatabaseError(
            f"the database stayed locked for {BUSY_SECONDS:.0f} seconds", found=str(path), advice=advice
        )
    if "unable to open" in text:
        advice = "check the rights of the file and its folder, or give another --db"
        return DatabaseError("the database cannot be opened", found=str(path), advice=advice)
    if "full" in text:
        advice = "make room on the disk; what was committed is safe"
        return DatabaseError("the database cannot grow", found=f"{path}: {text}", advice=advice)
    return DatabaseError("the database cannot be used", found=f"{path}: {text}")
