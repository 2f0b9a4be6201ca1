"""What if the fabric were another one: throughput of a network against area, over a sweep of fabric settings."""

from placer.explore.exploring import Exploration, ExploreConfig, Explored, explore
from placer.explore.front import front_of, hopeful
from placer.explore.report import explored_page, explored_table, front_figure, front_table, write_explored
from placer.explore.sweep import Point, points_of
