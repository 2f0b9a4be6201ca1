"""Published results of the ISPD 2020 benchmarks, for comparison.

CU.POKer: B. Jiang et al., ICCAD 2020. Best: the smallest ratio to CU.POKer of all rivals in its
table (GigaPlacer, CUPID, annealing, divide and conquer), where one of them is ahead.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """What CU.POKer reached on a benchmark, and the lower bound of its time."""

    bound: int
    slowest: int
    wire_length: float
    adapters: int
    score: float
    best_ratio: float = 1.0  # best published score / CU.POKer's

    def without_adapters(self, adapter_weight: float) -> float:
        """The score without its adapter term."""
        return self.score - adapter_weight * self.adapters


PUBLISHED = {
    "A": Published(33152, 34496, 1314, 15, 35810),
    "B": Published(62181, 63504, 2639.5, 18, 66143.5),
    "C": Published(60270, 64512, 2408, 185, 66920),
    "D": Published(32256, 33712, 2722, 123, 36434, 0.98),
    "E": Published(33152, 39312, 562, 11, 46032),
    "F": Published(62181, 65170, 1489.5, 12, 81265),
    "G": Published(60270, 64512, 2508.5, 98, 99397),
    "H": Published(32256, 39520, 1104.5, 49, 55465),
    "I": Published(46592, 52136, 617.5, 13, 54606),
    "J": Published(45752, 50274, 2472.5, 69, 60164, 0.95),
    "K": Published(252, 432, 240, 3, 1392),
    "L": Published(252, 864, 279, 18, 1980),
    "M": Published(2156544, 2211840, 3610.5, 41, 2226282),
    "N": Published(1020, 1482, 480.5, 10, 3404),
    "O": Published(46592, 52136, 617.5, 13, 82036),
    "P": Published(45752, 57792, 1101, 85, 135832),
    "Q": Published(252, 882, 166, 6, 9922, 0.87),
    "R": Published(252, 8064, 259, 20, 26424),
    "S": Published(2156544, 2396304, 1897.5, 48, 3174500, 0.93),
    "T": Published(1020, 4102, 208.5, 4, 14042),
}


@dataclass(frozen=True, slots=True)
class PublishedTime:
    """Times with wires ignored: of one wafer, of the slowest of four, and the best known of one.

    One and four: the paper on strips and stacks (its second table). Best: rows with stacks of up to
    three kernels, measured before this mapper was written.
    """

    one_wafer: int
    four_wafers: int
    best: int


PUBLISHED_TIMES = {
    "A": PublishedTime(34496, 10752, 34048),
    "B": PublishedTime(63504, 16128, 63504),
    "C": PublishedTime(62720, 16128, 62720),
    "D": PublishedTime(33516, 9702, 33264),
    "I": PublishedTime(48216, 13608, 48160),
    "J": PublishedTime(47628, 12096, 46592),
    "M": PublishedTime(2228224, 681984, 2211840),
}

# Generated graphs with the kernels, edges and bounds of a benchmark.
TWINS = {
    "resnet50": "A", "doubled": "B", "doubled_convs": "C", "resnet50_convs": "D",
    "resnet50_wired": "E", "resnet50_convs_wired": "H", "lean": "K", "lean_convs_wired": "R",
    "unet": "M", "unet_wired": "S",
}  # fmt: skip
