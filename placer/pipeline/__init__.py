"""From a workload to results: what `placer.simulate` and `placer.place` do, print and write."""

from placer.pipeline.energy import ENERGY_PARTS, joules_text, network_joules, section_joules
from placer.pipeline.network_time import (
    PARTS,
    NetworkTime,
    SectionRun,
    SectionTime,
    expected_run,
    network_time,
    run_of,
    section_time,
    time_of,
)
from placer.pipeline.page import placing_page, simulated_page, total_page
from placer.pipeline.placing import INTERVAL, PlaceConfig, PlacedSection, place_sections
from placer.pipeline.progress import SearchProgress
from placer.pipeline.report import (
    placed_metrics,
    run_name,
    show_placed,
    show_simulated,
    write_placed,
    write_plan,
    write_simulated,
    write_timelines,
    written_files,
)
from placer.pipeline.simulating import SimulateConfig, SimulatedSection, simulate_sections
from placer.pipeline.source import Lowered, SectionResult, Source
from placer.pipeline.time_report import (
    section_time_to_dict,
    section_values,
    time_chapters,
    time_facts,
    time_figures,
    time_table,
    time_to_dict,
    write_time,
)
