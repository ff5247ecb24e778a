"""No time that chaos sets comes before torchrun's own, and what it cut short is a doubt."""

import inspect

import msgspec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

from chaos.check.analysis import CLOSED, WAITED_IN_VAIN
from chaos.check.judge import judge
from chaos.check.time_limits import RECOVERY_S
from chaos.faults.return_capacity import PROOF_WITHIN_S
from chaos.launch.torchrun.rendezvous import SHUTDOWN_ENV, build_launch_options, find_timeouts
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.launcher import LAUNCHER_FACTS
from tests.check.story import Story, Strike
from tests.torchrun.test_rendezvous import plan

TORCHS_S = inspect.signature(LocalElasticAgent.__init__).parameters["shutdown_timeout"].default


def test_each_time_is_longer_than_what_it_waits_for() -> None:
    times, facts = find_timeouts({}), LAUNCHER_FACTS["torchrun"]

    assert TORCHS_S <= facts.times.shutdown_s < times.exit < times.join
    assert facts.times.shutdown_s < PROOF_WITHIN_S < times.join  # a node that comes is waited for
    # A run is ended, and blamed, after all of these.
    assert times.join <= facts.times.meeting_s < RECOVERY_S


def test_a_longer_shutdown_of_the_users_makes_the_others_longer() -> None:
    env = {SHUTDOWN_ENV: "200"}

    assert find_timeouts(env).join - find_timeouts({}).join == 200 - TORCHS_S
    assert find_timeouts({SHUTDOWN_ENV: "soon"}) == find_timeouts({})
    conf = next(w for w in build_launch_options(plan(nodes=2), 1, 7, env) if "rdzv-conf" in w)
    assert f"join_timeout={find_timeouts(env).join}" in conf


def ended_by(*errors: str) -> History:
    """Return a run whose second attempt never came, with what its agents raised."""
    told = Story(strikes=(Strike(epoch=1, step=2, rank=0),), budget=0).history()
    entries: list[JournalEntry] = []
    for entry in told:
        what = entry.event
        if isinstance(what, ev.FitRaised):
            ends = (ev.AgentEnded(node_id=f"node-{n}", error=e) for n, e in enumerate(errors))
            entries += [msgspec.structs.replace(entry, event=end) for end in ends]
            what = msgspec.structs.replace(what, error=errors[-1], launcher="torchrun")
        if isinstance(what, ev.FailureDecided):
            what = msgspec.structs.replace(what, decision="RETRY")
        entries.append(msgspec.structs.replace(entry, event=what))
    return History(entries)


def status(*errors: str) -> str:
    story = Story(strikes=(Strike(epoch=1, step=2, rank=0),), budget=1)
    return judge(story.plan(attempts=2), ended_by(*errors), story.baseline()).status


def test_agents_that_waited_in_vain_are_a_doubt() -> None:
    assert status(WAITED_IN_VAIN, CLOSED) == "inconclusive"
    assert status(WAITED_IN_VAIN) == "inconclusive"


def test_a_rendezvous_that_was_closed_at_once_is_none() -> None:
    assert status(CLOSED) == "fail"
