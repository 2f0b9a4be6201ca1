"""Pictures of placements and of the course of a search."""

from placer.show.draw import critical_marks, draw_placement, placement_figure
from placer.show.draw_curve import curve_figure, draw_curve
from placer.show.draw_cut import CutGroup, CutSection, cut_figure
from placer.show.draw_geometry import PORT_SIZE, UNIT_SIZE, arrow_outlines, extent, site_lines
from placer.show.draw_style import (
    LINK_COLOURS,
    is_gradient,
    op_style,
    picture_bytes,
    plain_ticks,
    save_figure,
    unit_labels,
)
from placer.show.draw_time import Bar, RoofPoint, roof_caption, roofline_figure, time_figure
