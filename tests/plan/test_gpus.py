"""One machine's GPUs among the nodes of a cluster on it."""

from hypothesis import given
from hypothesis import strategies as st

from chaos.plan.gpus import choose_share, count_workers, split_gpus

counts = st.integers(0, 16)


def ids(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_nodes_have_as_many_as_there_are_for_all_of_them() -> None:
    assert split_gpus(ids(8), 3) == [("0", "1"), ("2", "3"), ("4", "5")]
    assert split_gpus(ids(2), 3) == [("0",), ("1",), ()]
    assert split_gpus([], 2) == [(), ()]


def test_a_single_gpu_is_every_nodes_and_one_worker_has_it() -> None:
    assert split_gpus(["5"], 3) == [("5",)] * 3
    assert choose_share([("5",)] * 3, [("5",)] * 3) == ("5",)
    assert count_workers(["5"], 3, gpus_per_worker=1) == 1
    assert count_workers(["5"], 3, gpus_per_worker=0.5) == 2
    assert count_workers(["5"], 3, gpus_per_worker=0.2) == 5, "though 1 // 0.2 is 4"


@given(counts, st.integers(1, 8))
def test_no_gpu_is_on_two_nodes_where_there_are_several(gpus: int, nodes: int) -> None:
    given_out = [gpu for share in split_gpus(ids(gpus), nodes) for gpu in share]

    assert len(split_gpus(ids(gpus), nodes)) == nodes
    assert gpus == 1 or len(given_out) == len(set(given_out))
    assert gpus < 1 or given_out


@given(counts.filter(lambda gpus: gpus != 1), st.integers(1, 8), st.data())
def test_a_node_that_joins_has_what_a_lost_one_had(
    gpus: int, nodes: int, data: st.DataObject
) -> None:
    wanted = split_gpus(ids(gpus), nodes)
    lost = data.draw(st.sampled_from(range(nodes)))
    held = wanted[:lost] + wanted[lost + 1 :]

    assert choose_share(wanted, held) == wanted[lost]
    assert choose_share(wanted, wanted) == ()


@given(counts, st.integers(1, 8), st.integers(1, 4))
def test_as_many_workers_find_room_as_their_nodes_have_gpus_for(
    gpus: int, nodes: int, each: int
) -> None:
    found = count_workers(ids(gpus), nodes, gpus_per_worker=each)

    assert found * each <= gpus
    assert gpus < each * nodes or found >= nodes
