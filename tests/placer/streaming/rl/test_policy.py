"""The policy: any number of tiles, graphs that do not disturb each other, training that goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from placer.base import InputError
from placer.streaming.game import BatchEnv
from placer.streaming.mappers import require_legal
from placer.streaming.model import Budget, Device, growing_network, layered
from placer.streaming.rl import (
    POLICY_FILE,
    TRAINED_POLICY,
    UPDATES_FILE,
    GraphConfig,
    Policy,
    PolicyConfig,
    PpoConfig,
    TrainConfig,
    fine_tune,
    load_policy,
    sample,
    sample_mappings,
    sample_once,
    train,
    update_once,
)
from placer.streaming.rl.claims import summary
from placer.streaming.rl.gym_env import StreamingEnv
from placer.streaming.rl.policy import Seen, graphs_of, save_policy, seen_of
from placer.streaming.rl.ppo import play
from placer.streaming.rl.train import CHECKPOINT_FILE, draw_problems
from placer.streaming.search import UNLIMITED, Problem, list_schedule, make_problem

pytestmark = pytest.mark.slow

SMALL = TrainConfig(
    policy=PolicyConfig(width=16, heads=2, hidden=16),
    ppo=PpoConfig(rollouts=4, minibatch=64),
    graphs=GraphConfig(num_graphs=3, least_nodes=6, most_nodes=9),
    updates=4,
    checkpoint_every=2,
)


def gn(size: int, seed: int = 0, tiles: int = 64) -> Problem:
    return make_problem(growing_network(size, np.random.default_rng(seed)), Device(tiles=tiles))


@pytest.mark.parametrize("encoder", ["mlp", "gnn", "attention"])
def test_padding_changes_nothing(encoder: str) -> None:
    """The same game beside a larger one: same logits, same value."""
    torch.manual_seed(0)
    policy = Policy(PolicyConfig(encoder=encoder))  # type: ignore[arg-type]
    outputs = []
    for problems in ([gn(8)], [gn(8), gn(20)]):
        env = BatchEnv(problems, np.arange(len(problems)), "id")
        seen = env.reset()
        for _ in range(3):
            seen = env.step(seen.mask.argmax(axis=1))
        graphs = graphs_of(problems)
        with torch.no_grad():
            logits, values = policy(policy.embed(graphs), graphs.is_node, seen_of(env.episodes.problem, seen))
        outputs.append((logits[0, :8], values[0]))
    assert torch.allclose(outputs[0][0], outputs[1][0], atol=1e-5)
    assert torch.allclose(outputs[0][1], outputs[1][1], atol=1e-5)


def test_numbering_of_nodes_changes_nothing() -> None:
    """A renumbered graph, played in the same order, has the same logits at every step."""
    torch.manual_seed(0)
    policy = Policy(PolicyConfig())
    problem = gn(10)
    new = np.random.default_rng(5).permutation(10)
    edges = tuple(sorted((int(new[a]), int(new[b])) for a, b in problem.program.edges))
    other = make_problem(replace(problem.program, edges=edges), problem.device)
    envs = [BatchEnv([case], [0], "tail") for case in (problem, other)]
    seen = [env.reset() for env in envs]
    envs[1].episodes.order[0] = new[envs[0].episodes.order[0]]
    seen[1] = envs[1].copy_games(np.array([0]))
    while envs[0].is_alive.any():
        logits = []
        for case, env, view in zip((problem, other), envs, seen, strict=True):
            graphs = graphs_of([case])
            with torch.no_grad():
                logits.append(policy(policy.embed(graphs), graphs.is_node, seen_of(env.episodes.problem, view)))
        assert torch.allclose(logits[0][0], logits[1][0], atol=1e-4)
        action = logits[0][0].argmax(dim=1).numpy()
        seen = [env.step(action) for env in envs]
    assert envs[0].cycles[0] == envs[1].cycles[0]


def test_returns_are_what_is_lost_from_there_on() -> None:
    """With lambda 1 the return of a first step is minus the cycles above the bound, scaled."""
    policy = Policy(PolicyConfig())
    env = BatchEnv([gn(8), gn(10)], [0, 0, 1, 1])
    games, outcome = play(policy, env, PpoConfig(), torch.Generator().manual_seed(0))
    lost = env.cycles - env.pack.bound[env.episodes.problem]
    assert torch.allclose(games.returns[:4], torch.from_numpy(-0.25 * lost).float(), atol=1e-4)
    assert len(games.actions) == 2 * 8 + 2 * 10
    assert outcome["reward"] == pytest.approx(-lost.mean())
    for graph in (0, 1):
        part = games.advantages[games.seen.graph == graph]
        assert part.mean().item() == pytest.approx(0.0, abs=1e-4)


def test_illegal_tiles_do_not_look_like_early_ones() -> None:
    """Without a mask the policy must see what it may not choose."""
    env = BatchEnv([gn(12)], [0])
    seen = env.reset()
    while seen.mask.all() or env.episodes.step[0] == 0:
        seen = env.step(seen.mask.argmax(axis=1))
    legal, illegal = seen.tiles[0][seen.mask[0]], seen.tiles[0][~seen.mask[0]]
    assert (legal[:, 15] == 0).all() and (illegal[:, 15] == 1).all()
    assert illegal[:, 0].min() > legal[:, 0].max()


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    short = replace(SMALL, updates=1, checkpoint_every=1)
    train(short, tmp_path, lambda *_: None)
    seen: list[int] = []
    train(short, tmp_path, lambda update, _: seen.append(update))
    assert seen == []
    with pytest.raises(InputError, match="other settings"):
        train(replace(short, seed=1), tmp_path, lambda *_: None)
    with pytest.raises(InputError, match=r"other settings \(exclude\)"):
        train(replace(short, exclude=("a",)), tmp_path, lambda *_: None)
    settings = torch.load(tmp_path / POLICY_FILE, weights_only=True)["settings"]
    assert settings["exclude"] == ()


def test_a_cut_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = train(SMALL, tmp_path / "whole", lambda *_: None)

    def stop(update: int, _: dict[str, float]) -> None:
        if update == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SMALL, tmp_path / "cut", stop)
    assert (tmp_path / "cut" / CHECKPOINT_FILE).exists()
    again = train(SMALL, tmp_path / "cut", lambda *_: None)
    rows = (tmp_path / "cut" / UPDATES_FILE).read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["update", "0.0", "1.0", "2.0", "3.0"]
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_training_never_sees_what_is_held_out() -> None:
    config = GraphConfig(num_graphs=5, least_nodes=6, most_nodes=7)
    first = draw_problems(config, np.random.default_rng(0))
    marks = {problem.program.fingerprint for problem in first}
    assert len(marks) == len(first) == 5
    again = draw_problems(config, np.random.default_rng(0), marks)
    assert not marks & {problem.program.fingerprint for problem in again}


@pytest.mark.parametrize("ranks", [0, 2])
def test_samples_are_legal_and_sorted(ranks: int) -> None:
    policy = load_policy(TRAINED_POLICY)
    problem = make_problem(layered(18, np.random.default_rng(0), memories=2), Device())
    found = sample_once(problem, policy, 16, seed=1, ranks=ranks)
    cycles = [require_legal(problem, mapping).cycles for mapping in found]
    assert cycles == sorted(cycles)
    again = sample_once(problem, policy, 16, seed=1, ranks=ranks)
    assert [m.tile.tolist() for m in again] == [m.tile.tolist() for m in found]


@pytest.mark.parametrize(("size", "tiles"), [(20, 16), (30, 64), (40, 64)])
def test_zero_shot_beats_list_scheduling(size: int, tiles: int) -> None:
    """The policy that comes with the project, on graphs that it was not trained with."""
    problem = gn(size, seed=77, tiles=tiles)
    policy = load_policy(TRAINED_POLICY)
    sampled = sample_mappings(problem, Budget(600.0, 1), 0, policy).mapping
    listed = list_schedule(problem, Budget(60.0, 2000), 0).mapping
    assert sampled is not None
    assert listed is not None
    assert require_legal(problem, sampled).cycles <= listed.cycles
    assert sampled.cycles <= 1.15 * problem.bounds.total


def test_a_short_limit_gets_few_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_GRACE", (1.0, 60.0))  # the first game ends on any machine
    problem, policy = gn(40, seed=77, tiles=64), load_policy(TRAINED_POLICY)
    found = sample_mappings(problem, Budget(0.01, 1), 0, policy)
    assert found.mapping is not None
    assert found.tries == 1


def slow_policy(monkeypatch: pytest.MonkeyPatch, seconds: float, seconds_per_game: float) -> Policy:
    """The trained policy on a machine that needs so long for a step."""
    policy = load_policy(TRAINED_POLICY)
    real = policy.forward

    def forward(embedded: torch.Tensor, is_node: torch.Tensor, seen: Seen) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(seconds + seconds_per_game * len(seen.graph))
        return real(embedded, is_node, seen)

    monkeypatch.setattr(policy, "forward", forward)
    return policy


def test_a_limit_that_is_too_short_for_a_game_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, policy = gn(40, seed=77, tiles=64), slow_policy(monkeypatch, 0.05, 0.0)
    sample_once(problem, policy, 1, 0)  # loads compiled code
    begin = time.monotonic()
    found = sample_mappings(problem, Budget(0.5), 0, policy)
    assert time.monotonic() - begin < 1.1 * 0.5 + 1
    assert found.mapping is None
    assert found.needed is not None and found.needed > 40 * 0.05


def test_fewer_games_are_played_where_many_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, policy = gn(20, seed=77, tiles=16), slow_policy(monkeypatch, 0.0, 0.004)
    sample_once(problem, policy, 1, 0)  # loads compiled code
    begin = time.monotonic()
    found = sample_mappings(problem, Budget(0.5), 0, policy)
    assert time.monotonic() - begin < 1.1 * 0.5 + 1
    assert found.mapping is not None
    assert found.tries < 64


def test_policy_file_keeps_what_it_computes(tmp_path: Path) -> None:
    policy = load_policy(TRAINED_POLICY)
    save_policy(tmp_path / "p.pt", policy, {"policy": {}})
    for one, other in zip(policy.parameters(), load_policy(tmp_path / "p.pt").parameters(), strict=True):
        assert torch.equal(one, other)
    assert TRAINED_POLICY.stat().st_size < 1_000_000
    (tmp_path / "no.pt").write_bytes(b"no policy")
    torch.save({"schema": 2}, tmp_path / "empty.pt")
    torch.save({"schema": 2, "settings": {"policy": 3}}, tmp_path / "kind.pt")
    wide = {"policy": {"width": 1 << 40}}
    torch.save({"schema": 2, "settings": wide, "weights": {}}, tmp_path / "wide.pt")
    torch.save({"schema": 1, "settings": {}, "weights": {}}, tmp_path / "old.pt")
    for name in ("no.pt", "missing.pt", "empty.pt", "kind.pt", "wide.pt", "old.pt"):
        with pytest.raises(InputError, match="policy file"):
            load_policy(tmp_path / name)


def test_fine_tuning_counts_every_game() -> None:
    problem = gn(12, seed=3)
    found = fine_tune(problem, Budget(20.0, 200), 0, load_policy(TRAINED_POLICY))
    assert found.mapping is not None
    require_legal(problem, found.mapping)
    assert found.tries % 64 == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: PolicyConfig(width=10, heads=3),
        lambda: PpoConfig(rollouts=0),
        lambda: PpoConfig(clip=float("nan")),
        lambda: GraphConfig(least_nodes=9, most_nodes=8),
        lambda: TrainConfig(seed=1 << 31),
        lambda: draw_problems(
            GraphConfig(1, 2, 2, 0.0), np.random.default_rng(0),
            {growing_network(2, np.random.default_rng(0)).fingerprint},
        ),
    ],
)  # fmt: skip
def test_settings_that_cannot_train_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        wrong()


def test_table_of_claims() -> None:
    shares = {"dead_ends": 0.0, "single": 0.1, "best": 0.05}
    scores = [{"variant": "a", "seed": k, "reward": -1.0 - k, **shares} for k in (0, 1)]
    assert "| a | -1.5 (-2.0 to -1.0) | 0.0% (0.0% to 0.0%) |" in summary(scores).markdown()


def test_updates_improve_the_policy() -> None:
    torch.manual_seed(0)
    policy = Policy(SMALL.policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    config = PpoConfig(rollouts=32, minibatch=128)
    excess = [update_once(policy, optimizer, [gn(10)], config, seed)[0]["excess"] for seed in range(20)]
    assert np.mean(excess[-3:]) < 0.7 * np.mean(excess[:3])


@pytest.mark.filterwarnings("ignore::Warning")
def test_maskable_ppo_of_sb3_learns_in_the_same_environment() -> None:
    """An independent masked PPO gets better in our game too, and never takes an illegal tile."""
    from sb3_contrib import MaskablePPO

    env = StreamingEnv(gn(10, seed=1))

    def mean_cycles(model: MaskablePPO) -> float:
        cycles = []
        for seed in range(10):
            seen, _ = env.reset(seed=seed)
            is_over, info = False, {}
            while not is_over:
                action, _ = model.predict(seen, action_masks=env.action_masks())
                assert env.action_masks()[action]
                seen, _, is_over, _, info = env.step(action)
            cycles.append(info["cycles"] or UNLIMITED)
        return float(np.mean(cycles))

    model = MaskablePPO("MultiInputPolicy", env, seed=0, n_steps=256, gamma=1.0, device="cpu")
    before = mean_cycles(model)
    model.learn(2048)
    assert mean_cycles(model) < before
