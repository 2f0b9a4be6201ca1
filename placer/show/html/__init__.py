"""Results as one HTML page that needs nothing else: no server, no network.

`page` knows what a page is made of, `fabric_view` the interactive picture of a placement,
`box_view` that of a mapping; `placement` makes the sections about a placement, whoever found it.
"""

from placer.show.html.box_view import Arrow, Box, BoxView, Scale
from placer.show.html.fabric_view import Frame
from placer.show.html.page import Cell, Chapter, Folded, Image, Link, Page, PageTable, Text, picture_of
from placer.show.html.placement import placement_sections
from placer.show.html.report_page import report_page
