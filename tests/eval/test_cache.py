"""The cache of vectors: nothing stale, nothing torn, nothing that is not what was put."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jfinteb.eval.backends import EncoderOptions
from jfinteb.eval.cache import DiskStore, give_stores
from jfinteb.eval.cache_file import describe
from jfinteb.eval.cli import main
from jfinteb.eval.encoder import EncoderSpec
from jfinteb.eval.store import Embedded, MemoryStore, Store, keys_of
from jfinteb.eval.variants import Finished, open_variants, parts
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.task import Role

from .conftest import OpenTiny
from .results import read_results
from .test_encoder_spec import OTHER

SPEC = EncoderSpec(model="org/m", revision="r", backend="b", pooling="mean")
ENVIRONMENT = {"torch": "2.13.0", "device": "cpu"}
TEXTS = [f"景気は{i}か月続けて良い" for i in range(1200)]  # more than two lookups


def embedded(n: int, dimensions: int = 4, seed: int = 0) -> Embedded:
    chance = np.random.default_rng(seed)
    return Embedded(
        chance.normal(size=(n, dimensions)).astype(np.float32),
        chance.integers(1, 512, size=n),
        chance.integers(0, 2, size=n).astype(bool),
    )


def same(one: Embedded, two: Embedded) -> bool:
    return all(
        np.array_equal(getattr(one, f.name), getattr(two, f.name)) for f in dataclasses.fields(one)
    )


def disk(folder: Path, spec: EncoderSpec = SPEC, **environment: str) -> DiskStore:
    return DiskStore(folder, spec, ENVIRONMENT | environment)


@contextmanager
def sql(folder: Path) -> Iterator[sqlite3.Connection]:
    (file,) = folder.glob("*.sqlite")
    with closing(sqlite3.connect(file)) as connection, connection:
        yield connection


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return disk(tmp_path) if request.param == "disk" else MemoryStore()


def test_what_is_put_comes_back_in_the_order_of_the_keys(store: Store) -> None:
    keys = keys_of(SPEC, Role.QUERY, TEXTS)
    put = embedded(len(TEXTS))
    store.put(keys[::2], Embedded(put.vectors[::2], put.tokens[::2], put.truncated[::2]))
    order = np.random.default_rng(1).permutation(len(TEXTS))
    missing, found = store.get(keys[order], 4)
    assert missing.tolist() == (order % 2 == 1).tolist() == store.missing(keys[order]).tolist()
    held = order[order % 2 == 0]
    assert same(found, Embedded(put.vectors[held], put.tokens[held], put.truncated[held]))


def test_what_is_there_stays(store: Store) -> None:
    keys = keys_of(SPEC, Role.QUERY, TEXTS[:3])
    store.put(keys, embedded(3, seed=1))
    store.put(keys, embedded(3, seed=2))
    assert same(store.get(keys, 4)[1], embedded(3, seed=1))


def test_later_processes_find_it(tmp_path: Path) -> None:
    keys = keys_of(SPEC, Role.QUERY, TEXTS[:3])
    disk(tmp_path).put(keys, embedded(3))
    assert same(disk(tmp_path).get(keys, 4)[1], embedded(3))


AFTER = {"truncate_dim", "normalize", "precision"}
BY_ROLE = {"prompts", "routes"}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(EncoderSpec)])
def test_a_changed_field_of_the_spec_misses_what_it_changes(name: str, tmp_path: Path) -> None:
    """Fields of the finished vector reuse the raw one; prompts and routes count for their role."""
    changed = dataclasses.replace(SPEC, **{name: OTHER[name]})
    first = disk(tmp_path)
    for role in Role:
        first.put(keys_of(SPEC, role, TEXTS[:2]), embedded(2))
    second = disk(tmp_path, changed)
    for role in Role:
        strings = [changed.prompt(role) + text for text in TEXTS[:2]]
        stale = name not in AFTER | BY_ROLE or (name in BY_ROLE and role is Role.QUERY)
        if second.path != first.path:
            assert name in ("model", "backend")
        assert second.missing(keys_of(changed, role, strings)).all() == stale


@pytest.mark.parametrize(("name", "value"), [("torch", "2.14.0"), ("device", "cuda"), ("x", "1")])
def test_other_versions_and_devices_miss(name: str, value: str, tmp_path: Path) -> None:
    keys = keys_of(SPEC, Role.QUERY, TEXTS[:1])
    disk(tmp_path).put(keys, embedded(1))
    assert disk(tmp_path, **{name: value}).missing(keys).all()


@given(st.lists(st.text(max_size=8), min_size=2, max_size=8, unique=True))
def test_different_strings_have_different_keys(strings: list[str]) -> None:
    assert len(np.unique(keys_of(SPEC, Role.QUERY, strings))) == len(strings)


def test_roles_share_a_key_when_route_and_string_are_one() -> None:
    spec = dataclasses.replace(SPEC, prompts={"query": "query: ", "document": "passage: "})
    string = ["query: 円安"]
    assert keys_of(spec, Role.QUERY, string) == keys_of(spec, Role.DOCUMENT, string)
    apart = dataclasses.replace(spec, pool_prompt=False)
    assert keys_of(apart, Role.QUERY, string) != keys_of(apart, Role.DOCUMENT, string)
    routed = dataclasses.replace(spec, routes={"query": "q"})
    assert keys_of(routed, Role.QUERY, string) != keys_of(routed, Role.DOCUMENT, string)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vectors SET vector = zeroblob(16) WHERE rowid = 2",
        "UPDATE vectors SET vector = substr(vector, 1, 12) WHERE rowid = 2",
        "UPDATE vectors SET tokens = tokens + 1 WHERE rowid = 2",
        "UPDATE vectors SET truncated = 1 - truncated WHERE rowid = 2",
        "UPDATE vectors SET checksum = zeroblob(8) WHERE rowid = 2",
    ],
)
def test_a_damaged_row_is_dropped_named_and_encoded_again(damage: str, tmp_path: Path) -> None:
    keys = keys_of(SPEC, Role.QUERY, TEXTS[:3])
    disk(tmp_path).put(keys, embedded(3))
    with sql(tmp_path) as connection:
        connection.execute(damage)
    store = disk(tmp_path)
    missing, found = store.get(keys, 4)
    assert missing.tolist() == [False, True, False]
    assert np.array_equal(found.vectors, embedded(3).vectors[[0, 2]])
    assert store.notes == ["cache: 1 damaged vectors were encoded again"]
    store.put(keys, embedded(3))
    assert not disk(tmp_path).missing(keys).any()


def test_a_row_under_another_key_is_damage(tmp_path: Path) -> None:
    keys = keys_of(SPEC, Role.QUERY, TEXTS[:3])
    disk(tmp_path).put(keys[:2], embedded(2))
    with sql(tmp_path) as connection:
        connection.execute("UPDATE vectors SET key = ? WHERE rowid = 1", (keys[2].tobytes(),))
    assert disk(tmp_path).get(keys, 4)[0].tolist() == [True, False, True]


def test_any_flipped_byte_of_the_file_is_survived_without_a_wrong_vector(tmp_path: Path) -> None:
    keys = keys_of(SPEC, Role.QUERY, TEXTS[:40])
    put = embedded(40, dimensions=64)
    first = disk(tmp_path / "a")
    first.put(keys, put)
    first.close()
    whole = first.path.read_bytes()
    chance = np.random.default_rng(0)
    seen = set()
    for number, place in enumerate(chance.integers(0, len(whole), size=120).tolist()):
        folder = tmp_path / str(number)
        folder.mkdir()
        spoiled = bytearray(whole)
        spoiled[place] ^= 0xFF
        (folder / first.path.name).write_bytes(spoiled)
        try:
            store = disk(folder)
        except UsageError as error:
            assert "\n" not in str(error)
            seen.add("refused")
            continue
        missing, found = store.get(keys, 64)
        assert np.array_equal(found.vectors, put.vectors[~missing])
        store.put(keys, put)
        again, held = store.get(keys, 64)
        assert np.array_equal(held.vectors, put.vectors[~again])
        seen.add("whole" if not missing.any() else "damaged")
        store.close()
    assert {"whole", "damaged"} <= seen


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"not a database at all" * 500])
def test_a_file_that_is_no_database_is_kept_aside(content: bytes, tmp_path: Path) -> None:
    path = disk(tmp_path).path
    keys = keys_of(SPEC, Role.QUERY, TEXTS[:3])
    for file in tmp_path.iterdir():
        file.unlink()
    path.write_bytes(content)
    store = disk(tmp_path)
    store.put(keys, embedded(3))
    assert not store.missing(keys).any()
    if content.strip(b"\0"):
        (aside,) = tmp_path.glob("*.damaged-1")
        assert aside.read_bytes() == content
        assert aside.name in store.notes[0]


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = disk(tmp_path).path
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE accounts (id)")
    with pytest.raises(UsageError, match="is not a vector cache of this version"):
        disk(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("accounts",)]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--no-cache"):
        disk(tmp_path / "file" / "cache")


_FULL = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from tests.eval.test_cache import SPEC, TEXTS, disk, embedded
from jfinteb.eval.store import keys_of
from jfinteb.loaders.task import Role
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = disk(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
keys = keys_of(SPEC, Role.QUERY, TEXTS)
put = embedded(len(TEXTS), 256)
from jfinteb.eval.store import Embedded
for start in range(0, len(TEXTS), 50):
    part = slice(start, start + 50)
    store.put(keys[part], Embedded(put.vectors[part], put.tokens[part], put.truncated[part]))
missing, found = store.get(keys, 256)
assert np.array_equal(found.vectors, put.vectors[~missing])
assert missing[-1] and not missing[0], missing
print(store.notes)
"""


def test_a_full_disk_ends_the_keeping_and_not_the_run(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], cwd=root, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert "vectors were not kept from there on" in done.stdout


_WRITER = """
import sys
from pathlib import Path
from tests.eval.test_cache import SPEC, TEXTS, disk, embedded
from jfinteb.eval.store import Embedded, keys_of
from jfinteb.loaders.task import Role
store = disk(Path(sys.argv[1]))
keys, put = keys_of(SPEC, Role.QUERY, TEXTS), embedded(len(TEXTS))
for start in range(0, len(TEXTS), 30):
    part = slice(start, start + 30)
    store.put(keys[part], Embedded(put.vectors[part], put.tokens[part], put.truncated[part]))
"""


def test_several_processes_write_one_new_file_at_once(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE) for _ in range(3)]
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors.decode()
    keys = keys_of(SPEC, Role.QUERY, TEXTS)
    assert same(disk(tmp_path).get(keys, 4)[1], embedded(len(TEXTS)))
    with sql(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (len(TEXTS),)


# what an encoder makes of it


@pytest.fixture
def spied(open_tiny: OpenTiny, tmp_path: Path) -> Callable[..., tuple[Any, list[str]]]:
    """A tiny encoder with the cache of this test, and the strings that go through its model."""

    def opened(**options: Any) -> tuple[Any, list[str]]:
        encoder = open_tiny("bert", **options)
        encoder.store = DiskStore(tmp_path, encoder.spec, encoder.environment)
        seen: list[str] = []
        forward = encoder._forward

        def spy(network: Any, tokenized: Any, rows: Any) -> Any:
            seen.extend(rows.tolist())
            return forward(network, tokenized, rows)

        encoder._forward = spy
        return encoder, seen

    return opened


def test_a_second_encoder_loads_no_weights_and_gives_the_same_bits(
    spied: Callable[..., Any], sentences: list[str]
) -> None:
    first, _ = spied()
    vectors = first.encode([*sentences, "", sentences[0]], "query")
    second, seen = spied()
    again = second.encode([*sentences, "", sentences[0]], "query")
    assert np.array_equal(vectors, again)
    assert not seen and second._loaded is None
    assert second.counts == dataclasses.replace(first.counts, cached=len(sentences) + 1)


def test_one_character_of_one_text_encodes_that_text_alone(
    spied: Callable[..., Any], sentences: list[str]
) -> None:
    spied()[0].encode(sentences, "query")
    encoder, seen = spied()
    changed = [*sentences[:3], sentences[3] + "。", *sentences[4:]]
    vectors = encoder.encode(changed, "query")
    assert len(seen) == 1
    alone = spied()[0].encode([changed[3]], "query")
    assert np.array_equal(vectors[3], alone[0])


def test_a_missing_batch_is_encoded_in_the_batch_it_was_in(
    spied: Callable[..., Any], sentences: list[str], tmp_path: Path
) -> None:
    whole = spied(batch_tokens=64)[0].encode(sentences, "query")
    with sql(tmp_path) as connection:
        connection.execute("DELETE FROM vectors WHERE rowid > 13")
    encoder, seen = spied(batch_tokens=64)
    assert np.array_equal(encoder.encode(sentences, "query"), whole)
    assert len(seen) == len(set(sentences)) - 13


def test_cut_and_scaled_vectors_come_from_the_same_raw_ones(
    spied: Callable[..., Any], sentences: list[str]
) -> None:
    encoder, _ = spied()
    raw = encoder.encode(sentences, "query")
    encoder, seen = spied(truncate_dim=8, normalize=True)
    cut = raw[:, :8] / np.linalg.norm(raw[:, :8].astype(np.float64), axis=1, keepdims=True)
    assert np.abs(encoder.encode(sentences, "query") - cut).max() < 1e-6
    over = Finished(spied()[0], truncate_dim=8, normalize=True)
    over.store = encoder.store
    assert np.array_equal(over.encode(sentences, "query"), encoder.encode(sentences, "query"))
    assert not seen


def test_a_variant_that_changes_the_raw_vector_is_refused(open_tiny: OpenTiny) -> None:
    with pytest.raises(ValueError, match="max_length change the raw vector"):
        Finished(open_tiny("bert"), max_length=8)


def test_poolings_that_go_together_equal_each_alone(
    open_tiny: OpenTiny, sentences: list[str]
) -> None:
    modes = ("cls", "mean", "first_last_avg", "max", "weighted_mean")
    joint = open_tiny("bert", pooling="+".join(modes))
    batches = []
    forward = joint._forward  # type: ignore[attr-defined]
    joint._forward = lambda *a: batches.append(1) or forward(*a)  # type: ignore[attr-defined]
    found = parts(joint)
    for part in found:
        part.store = MemoryStore()
    needed = []
    for mode, part in zip(modes, found, strict=True):
        alone = open_tiny("bert", pooling=mode)
        assert part.spec == alone.spec
        assert np.array_equal(part.encode(sentences, "query"), alone.encode(sentences, "query"))
        needed.append(len(batches))
    assert needed[0] > 0 and set(needed) == {needed[0]}  # the first mode encoded for all


def test_last_pooling_keeps_its_end_token_from_the_others(
    open_tiny: OpenTiny, tiny: dict[str, Path], sentences: list[str]
) -> None:
    options = EncoderOptions(model=str(tiny["llama"]), device="cpu")
    found = open_variants(options, ("mean", "last", "cls"), (None,), ("float32",))
    assert [encoder.spec.pooling for encoder in found] == ["mean", "last", "cls"]
    give_stores(found, None)
    for encoder in found:
        alone = open_tiny("llama", pooling=encoder.spec.pooling)
        assert encoder.spec == alone.spec
        assert np.array_equal(encoder.encode(sentences, "query"), alone.encode(sentences, "query"))


# whole runs


def test_kills_and_shared_caches_change_no_bit(tiny: dict[str, Path], tmp_path: Path) -> None:
    """A few here; `kill_runs.py --kills 200` is the same by hand."""
    script = Path(__file__).with_name("kill_runs.py")
    for at_once, kills in (("1", "3"), ("2", "2")):
        command = [sys.executable, str(script), str(tiny["bert"]), str(tmp_path / at_once)]
        done = subprocess.run(
            [*command, "--kills", kills, "--at-once", at_once],
            text=True,
            capture_output=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert "kills in" in done.stdout


def test_the_cache_command(
    tiny: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ["--cache", str(tmp_path / "kept")]
    run = ["run", "--model", str(tiny["bert"]), "--suite", "sample", "--tasks", "pfmt", *cache]
    assert main([*run, "--output", str(tmp_path / "out")]) == 0
    (file,) = (tmp_path / "kept").glob("*.sqlite")
    (held,) = describe(file, verify=True)
    assert held.damaged == 0 and held.bytes == held.vectors * 32 * 4 > 0
    capsys.readouterr()
    assert main(["cache", "--verify", *cache]) == 0
    shown = capsys.readouterr().out
    assert f"{held.vectors:,}" in shown and "bert" in shown
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE vectors SET tokens = 0 WHERE rowid = 1")
    assert main(["cache", "--verify", *cache]) == 1
    assert main(["cache", "--clear", "other", *cache]) == 2
    assert main(["cache", "--clear", "bert", *cache]) == 0
    assert not list((tmp_path / "kept").glob("*.sqlite*"))


def test_clearing_leaves_what_is_not_ours(tmp_path: Path) -> None:
    disk(tmp_path).put(keys_of(SPEC, Role.QUERY, TEXTS[:1]), embedded(1))
    with closing(sqlite3.connect(tmp_path / "notes-2024.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE notes (id)")
    shutil.copy(tmp_path / "notes-2024.sqlite", tmp_path / "org__m-0123abcd.sqlite")
    (tmp_path / "all.damaged-report").write_text("mine")
    others = {"notes-2024.sqlite", "org__m-0123abcd.sqlite", "all.damaged-report"}
    assert main(["cache", "--clear", "all", "--cache", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == others


@pytest.mark.parametrize("value", ["printf('%0128d', 0)", "NULL", "7", "zeroblob(128)"])
def test_a_damaged_row_of_a_remembered_model_is_encoded_again(
    value: str, tiny: dict[str, Path], tmp_path: Path
) -> None:
    run = ["run", "--model", str(tiny["bert"]), "--suite", "sample", "--tasks", "pfmt"]
    cache = tmp_path / "kept"
    assert main([*run, "--cache", str(cache), "--output", str(tmp_path / "a")]) == 0
    column = "tokens = 'x'" if value == "NULL" else f"vector = {value}"
    with sql(cache) as connection:
        connection.execute(f"UPDATE vectors SET {column} WHERE rowid = 3")
    assert main([*run, "--cache", str(cache), "--output", str(tmp_path / "b")]) == 0
    (one,), (two,) = read_results(tmp_path / "a"), read_results(tmp_path / "b")
    assert two.score == one.score
    assert "cache: 1 damaged vectors were encoded again" in two.notes
    assert main(["cache", "--verify", "--cache", str(cache)]) == 0


def test_no_cache_keeps_nothing(tiny: dict[str, Path], tmp_path: Path) -> None:
    run = ["run", "--model", str(tiny["bert"]), "--suite", "sample", "--tasks", "pfmt"]
    assert main([*run, "--output", str(tmp_path / "out"), "--no-cache"]) == 0
    assert not list(Path(os.environ["JFINTEB_CACHE"]).iterdir())
