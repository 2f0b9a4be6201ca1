"""All mappers by name; what they find is checked, kept as a file, drawn and reported."""

from placer.streaming.mappers.mappers import (
    FrontPoint,
    NotFoundError,
    Result,
    find_front,
    map_program,
    require_legal,
    warm_up,
)
from placer.streaming.mappers.result_file import result_text
from placer.streaming.mappers.show import draw_mapping, mapping_page
