"""Clusters that ask for a token and clusters that do not, ours and others'; no cluster here."""

import os
from pathlib import Path

import pytest

from chaos.errors import ClusterError
from chaos.launch.ray import compat
from chaos.launch.ray.authentication import FILE, MODE, TOKEN, Authentication

ADDRESS = "127.0.0.1:6379"
RIGHT = "00" * 32


class Gcs:
    """Refuses as Ray's does: without the right token, where it asks for one."""

    def __init__(self, *, asks: bool) -> None:
        self.asks = asks

    def refuses(self, address: str) -> bool:
        assert address == ADDRESS
        return self.asks and (os.environ.get(MODE) != "token" or told_token() != RIGHT)


def told_token() -> str | None:
    """Return the token that Ray would send, by its own order."""
    if TOKEN in os.environ:
        return os.environ[TOKEN]
    file = Path(os.environ.get(FILE, Path.home() / ".ray/auth_token"))
    return file.read_text() if file.exists() else None


@pytest.fixture(autouse=True)
def asking(monkeypatch: pytest.MonkeyPatch) -> Gcs:
    gcs = Gcs(asks=True)
    monkeypatch.setattr(compat, "is_refused", gcs.refuses)
    return gcs


@pytest.fixture(autouse=True)
def at_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where `ray get-auth-token --generate` leaves a token, in a home that has none."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in (MODE, TOKEN, FILE):
        monkeypatch.setenv(name, "")  # so that it is known that there was none, and none stays
        monkeypatch.delenv(name)
    (home / ".ray").mkdir()
    return home / ".ray/auth_token"


def of_ray() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith("RAY_AUTH")}


def test_a_token_that_ray_has_left_at_home_is_sent_to_a_cluster_that_asks_for_it(
    at_home: Path,
) -> None:
    at_home.write_text(RIGHT)
    authentication = Authentication()

    authentication.follow_cluster(ADDRESS)
    assert of_ray() == {MODE: "token", FILE: str(at_home)}

    authentication.restore()
    assert of_ray() == {}


def test_a_cluster_that_does_not_ask_is_sent_none(asking: Gcs, at_home: Path) -> None:
    at_home.write_text(RIGHT)
    asking.asks = False

    Authentication().follow_cluster(ADDRESS)

    assert of_ray() == {MODE: "disabled"}


@pytest.mark.parametrize("way", [TOKEN, FILE])
def test_a_token_of_the_environment_is_left_where_it_is(
    way: str, tmp_path: Path, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home.write_text("11" * 32)
    (tmp_path / "token").write_text(RIGHT)
    named = {TOKEN: RIGHT, FILE: str(tmp_path / "token")}[way]
    monkeypatch.setenv(way, named)

    Authentication().follow_cluster(ADDRESS)

    assert of_ray() == {MODE: "token", way: named}


@pytest.mark.parametrize("named", [None, "nowhere"])
def test_where_no_token_is_found_it_is_said_where_one_is_looked_for(
    named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named is not None:
        monkeypatch.setenv(FILE, named)

    with pytest.raises(ClusterError, match=r"none was found here\. .*RAY_AUTH_TOKEN_PATH"):
        Authentication().follow_cluster(ADDRESS)


def test_a_wrong_token_is_said_to_be_one_and_is_not_told(at_home: Path) -> None:
    at_home.write_text("11" * 32)

    with pytest.raises(ClusterError, match="refuses the token that was found here") as raised:
        Authentication().follow_cluster(ADDRESS)

    assert "1111" not in str(raised.value)


def test_whoever_has_switched_authentication_off_is_told_that_the_cluster_has_not(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home.write_text(RIGHT)
    monkeypatch.setenv(MODE, "disabled")

    with pytest.raises(ClusterError, match="RAY_AUTH_MODE=disabled sends none"):
        Authentication().follow_cluster(ADDRESS)


def test_our_own_cluster_has_a_token_of_its_own_that_no_other_user_reads(
    tmp_path: Path, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home.write_text(RIGHT)
    monkeypatch.setenv(TOKEN, RIGHT)
    authentication = Authentication()

    authentication.create_token(tmp_path)
    (file,) = tmp_path.iterdir()
    assert of_ray() == {MODE: "token", FILE: str(file)}
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text()) == 64
    assert file.read_text() != RIGHT

    authentication.restore()
    assert of_ray() == {TOKEN: RIGHT}


def test_whoever_switches_authentication_off_has_our_own_cluster_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODE, "disabled")

    Authentication().create_token(tmp_path)

    assert of_ray() == {MODE: "disabled"}
    assert list(tmp_path.iterdir()) == []
