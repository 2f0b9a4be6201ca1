"""Results as one HTML page that needs nothing else: no server, no network.

`page` knows what a page is made of, `fabric_view` the interactive picture of a placement;
`placement` and `searched` make the pages of placements.
"""
