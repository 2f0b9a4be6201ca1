"""The sampler: every decision once, G graphs x C decisions, nothing but seed and epoch."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.encoding import make_batch
from costmodel.training.processes import ALONE, Place
from costmodel.training.sampler import BatchData, GraphSampler, in_order
from tests.costmodel.cases import graphs_of, random_stack

sizes_of_netlists = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def sampler_of(sizes: list[int], graphs: int, decisions: int, seed: int = 0, place: Place = ALONE) -> GraphSampler:
    netlist = np.repeat(np.arange(len(sizes)) * 5, sizes)  # numbers need not follow each other
    ids = 100 + 2 * np.arange(len(netlist))
    return GraphSampler(ids, netlist, graphs, decisions, seed, place)


@settings(max_examples=50)
@given(sizes_of_netlists, st.integers(1, 3), st.integers(1, 4), st.integers(0, 5))
def test_batches_of_an_epoch(sizes: list[int], graphs: int, decisions: int, epoch: int) -> None:
    sampler = sampler_of(sizes, graphs, decisions)
    sampler.set_epoch(epoch)
    batches = [batch.tolist() for batch in sampler]
    assert len(batches) == len(sampler)
    ids = 100 + 2 * np.arange(sum(sizes))
    assert sorted(i for batch in batches for i in batch) == ids.tolist()
    netlist_of = dict(zip(ids.tolist(), np.repeat(np.arange(len(sizes)), sizes), strict=True))
    groups = 0
    for batch in batches:
        assert len(batch) <= graphs * decisions
        for netlist in {netlist_of[i] for i in batch}:
            members = sum(netlist_of[i] == netlist for i in batch)
            groups += -(-members // decisions)
        assert len({netlist_of[i] for i in batch}) <= graphs
    # no netlist is cut into more groups than it needs
    assert groups <= sum(-(-size // decisions) for size in sizes)


@settings(max_examples=50)
@given(sizes_of_netlists, st.integers(1, 5), st.integers(1, 4), st.integers(2, 4))
def test_processes_share_each_batch(sizes: list[int], graphs: int, decisions: int, world: int) -> None:
    whole = [batch.tolist() for batch in sampler_of(sizes, graphs, decisions)]
    places = [Place(rank, world) for rank in range(world)]
    shares = [[b.tolist() for b in sampler_of(sizes, graphs, decisions, place=p)] for p in places]
    netlist_of = np.repeat(np.arange(len(sizes)), sizes)
    for batch, *parts in zip(whole, *shares, strict=True):
        owners = [{int(netlist_of[(i - 100) // 2]) for i in part} for part in parts]
        if len(set.union(*owners)) < world:
            assert parts == [batch] * world
            continue
        assert sorted(i for part in parts for i in part) == sorted(batch)
        assert all(part for part in parts)
        assert sum(map(len, owners)) == len(set.union(*owners))  # none is cut apart


def test_full_batches_have_g_graphs_times_c_decisions() -> None:
    sampler = sampler_of([12] * 8, graphs=4, decisions=12)
    assert [len(batch) for batch in sampler] == [48, 48]


def test_order_depends_on_seed_and_epoch_only() -> None:
    def order(seed: int, epoch: int, before: int = 0) -> list[list[int]]:
        sampler = sampler_of([6, 7, 8], graphs=2, decisions=3, seed=seed)
        for _ in range(before):
            list(sampler)
        sampler.set_epoch(epoch)
        return [batch.tolist() for batch in sampler]

    assert order(1, 3) == order(1, 3, before=2)
    assert len({str(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


@settings(max_examples=20)
@given(st.integers(0, 12), st.integers(1, 5))
def test_the_plain_sampler_keeps_the_order(number: int, size: int) -> None:
    batches = in_order(np.arange(number) + 3, size)
    assert all(0 < len(batch) <= size for batch in batches)
    assert [i for batch in batches for i in batch] == list(range(3, 3 + number))


def test_batch_data_gives_the_batch_of_ids() -> None:
    graphs = graphs_of([random_stack(0)])
    ids = np.array([4, 1])
    one, two = BatchData(graphs)[ids], make_batch(graphs, ids)
    assert (one.visit_lane == two.visit_lane).all() and len(one) == 2
