"""What is shown of a solution: pictures, a page, a table of its score."""

from placer.stencil.show.draw import draw_fabric, draw_volume
from placer.stencil.show.page import score_table, solution_page
