"""What units and links do in a window of cycles, and the same as a timeline that Perfetto opens."""

from placer.simulation.recording.recorder import MAX_SPANS, Recording, Spans, record
from placer.simulation.recording.trace import trace_events, write_timeline
